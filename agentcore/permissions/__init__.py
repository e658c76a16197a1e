"""Policy: what a call may touch, what is asked, what was granted. Pure functions over values."""
