"""An approval outlives the server: killed while a person is asked, it asks again and the call runs once."""

from pathlib import Path

from agentcore_selfcheck.server import Server
from agentcore_selfcheck.talking import asked, is_event, is_idle, new_session, stream, until
from agentcore_selfcheck.verdicts import Say, demand

_STORY = {
    "turns": [
        {"text": "I ask first.", "tool_calls": [{"name": "bash", "input": {"command": "echo once >> ran.txt"}}]},
        {"text": "Done."},
    ]
}


async def approval(folder: Path, say: Say) -> str:
    async with Server.running(folder, _STORY) as server:
        async with server.client() as http:
            session = await new_session(http)
            async with stream(http, session) as frames:
                say("waiting for the model to ask")
                await asked(http, "POST", f"/v1/sessions/{session}/prompt", 202, text="go")
                request = (await until(frames, is_event("permission_request"), "the request"))[-1].value
        say("SIGKILL while it waits")
        await server.restart()
        async with server.client() as http:
            await asked(http, "POST", "/v1/sessions", 201, resume=session)
            offered = (await asked(http, "GET", f"/v1/sessions/{session}/permissions", 200))["permissions"]
            demand([one["request_id"] for one in offered] == [request["request_id"]], "the request was gone")
            demand(not (server.work / "ran.txt").exists(), "the call ran without an answer")
            say("answering after the restart")
            async with stream(http, session) as frames:
                path = f"/v1/sessions/{session}/permissions/{request['request_id']}"
                await asked(http, "POST", path, 204, allow=True, digest=request["digest"])
                await until(frames, is_event("done"), "the end of the run")
                await until(frames, is_idle, "the end of the run")
        ran = (server.work / "ran.txt").read_text()
        demand(ran == "once\n", f"the call ran {ran.count('once')} times")
        return f"killed while {request['request_id']} waited; the restarted server offered it again, the call ran once"
