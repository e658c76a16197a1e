"""An MCP server that wants a login, and the authorization server for it, both by hand. Run as a program by the tests.

`login_server.py PORT LIFE_S`: an access token lives so long; `token=…` is one that is given already.
Whoever asks is let in, unless he asks for `/deny`.
"""

import base64
import hashlib
import json
import secrets
import sys
import time

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

PORT, LIFE_S = int(sys.argv[1]), float(sys.argv[2])
BASE = f"http://127.0.0.1:{PORT}"
codes: dict[str, dict[str, str]] = {}
tokens: dict[str, float] = {one[6:]: time.time() + LIFE_S for one in sys.argv if one.startswith("token=")}
refreshes: set[str] = set()
seen: dict[str, int] = {"refreshed": 0, "denied": 0}


async def resource(request: Request) -> Response:
    return JSONResponse({"resource": f"{BASE}/mcp", "authorization_servers": [f"{BASE}/"]})


async def metadata(request: Request) -> Response:
    return JSONResponse(
        {
            "issuer": f"{BASE}/",
            "authorization_endpoint": f"{BASE}/allow",
            "token_endpoint": f"{BASE}/give",
            "registration_endpoint": f"{BASE}/enlist",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
    )


async def register(request: Request) -> Response:
    return JSONResponse({**await request.json(), "client_id": "client-1"}, 201)


async def authorize(request: Request) -> Response:
    query = dict(request.query_params)
    if "deny" in sys.argv:
        return RedirectResponse(f"{query['redirect_uri']}?error=access_denied&state={query['state']}")
    code = secrets.token_urlsafe(8)
    codes[code] = query
    state = "forged" if "forge" in sys.argv else query["state"]
    return RedirectResponse(f"{query['redirect_uri']}?code={code}&state={state}")


async def token(request: Request) -> Response:
    form = dict(await request.form())
    if form["grant_type"] == "authorization_code":
        asked = codes.pop(str(form["code"]))
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        assert form["redirect_uri"] == asked["redirect_uri"]
    elif form["refresh_token"] in refreshes:
        refreshes.discard(str(form["refresh_token"]))
        seen["refreshed"] += 1
    else:
        return JSONResponse({"error": "invalid_grant"}, 400)
    access, refresh = f"access-{secrets.token_urlsafe(16)}", f"refresh-{secrets.token_urlsafe(16)}"
    tokens[access] = time.time() + LIFE_S
    refreshes.add(refresh)
    given = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": LIFE_S}
    return JSONResponse(given)


async def mcp(request: Request) -> Response:
    kind, _, access = request.headers.get("authorization", "").partition(" ")
    if kind != "Bearer" or tokens.get(access, 0.0) < time.time():
        seen["denied"] += 1
        where = f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
        return JSONResponse({"error": "invalid_token"}, 401, {"WWW-Authenticate": where})
    if request.method != "POST":
        return Response(status_code=405)
    asked = await request.json()
    if "id" not in asked:
        return Response(status_code=202)
    match asked["method"]:
        case "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "locked", "version": "1"},
            }
        case "tools/list":
            result = {"tools": [{"name": "seen", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": json.dumps(seen)}]}
        case _:
            error = {"code": -32601, "message": "no such method"}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": error})
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})


application = Starlette(
    routes=[
        Route("/.well-known/oauth-protected-resource/mcp", resource),
        Route("/.well-known/oauth-authorization-server", metadata),
        Route("/enlist", register, methods=["POST"]),
        Route("/allow", authorize),
        Route("/give", token, methods=["POST"]),
        Route("/mcp", mcp, methods=["GET", "POST", "DELETE"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(application, host="127.0.0.1", port=PORT, log_level="error")
