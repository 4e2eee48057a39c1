"""An ASGI app for uvicorn, hypercorn and granian: HTTP, a WebSocket that echoes, a stream of events."""

import asyncio
import os


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        return await echo(receive, send)
    if scope["path"] == "/events":
        return await events(send)
    if scope["path"] == "/parts":
        return await parts(send)
    if scope["path"] == "/pieces":
        await whole(receive)
        return await pieces(send)
    body = str(os.getpid()).encode()
    if scope["path"] == "/echo":
        body = await whole(receive)
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def whole(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def parts(send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for letter in (b"a", b"b", b"c"):
        await send({"type": "http.response.body", "body": letter * 40_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def pieces(send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(10):
        await send({"type": "http.response.body", "body": b"piece\n", "more_body": True})
        await asyncio.sleep(0.2)
    await send({"type": "http.response.body", "body": b""})


async def events(send):
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(200):
        event = f"data: {number}\n\n".encode()
        await send({"type": "http.response.body", "body": event, "more_body": True})
        await asyncio.sleep(0.01)


async def echo(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        await send({"type": "websocket.send", "text": message["text"].upper()})
