"""Subagents: what kinds there are, the tool that begins one, and what makes its run another than the main agent's.

Knows neither journal nor loop: the run itself is put together in `agentcore.delegating`.
"""
