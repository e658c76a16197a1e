"""What the model is told about a compaction: the request for a summary, and what the new context begins with."""

from collections.abc import Sequence

from agentcore.events import TodoItem

REQUEST_TAG = "<compaction-request>"
"""The text that asks for a summary begins with it: no words of a person."""
NOTE_TAG = "<system-note>"
"""As every text that the system adds to what a person says."""
COMPACTED = f"{NOTE_TAG}\nThis conversation was compacted:"
"""What a compacted context begins with."""
CONTINUE = "Continue the task from where it left off."

_REQUEST = f"""\
{REQUEST_TAG}
The context is nearly full. Your next answer is a summary of the conversation above; it will take the place of the
conversation, and the work goes on from it alone. Do not call tools: nothing but the text of your answer counts.

Answer with <summary> and </summary> around:

1. What the user asked for, in order, close to word for word; the user's corrections, wishes and limits as well.
2. What was decided, and why.
3. What was done: files with their paths, what changed in them and why; commands and what they showed.
4. What failed, and how it was solved or what is known about it.
5. What is being worked on now, and the very next step.

Names, paths, numbers, error messages and short pieces of code that are needed later stay exact. Leave out everything
else.
</compaction-request>"""

_NOTE = """\
{beginning} a summary stands in the place of everything before this point.

<summary>
{summary}
</summary>
{todos}
Word for word, everything before is kept in {journal} (one JSON object a line; the newest lines are at the end). Search
it for exact details that the summary leaves out, rather than guess.
</system-note>"""


def request() -> str:
    """Ask for a summary of the messages before."""
    return _REQUEST


def request_about(conversation: str) -> str:
    """Ask for a summary of a conversation that is told as a text."""
    return f"{_REQUEST}\n\nThe conversation, shortened:\n\n<conversation>\n{conversation}\n</conversation>"


def note(summary: str, todos: Sequence[TodoItem], journal: str) -> str:
    """What a compacted context begins with; `journal` says where its files are."""
    lines = [f"- [{item.status}] {item.content}" for item in todos if item.status != "completed"]
    told = "\n".join(["", "Open items of your task list:", *lines, ""]) if lines else ""
    return _NOTE.format(beginning=COMPACTED, summary=summary, todos=told, journal=journal)


def summary_in(answer: str) -> str:
    """The summary in an answer to the request: between its tags, or all of it where there are none."""
    _, found, rest = answer.partition("<summary>")
    if not found:
        return answer.strip()
    inside, closed, _ = rest.rpartition("</summary>")
    return (inside if closed else rest).strip()
