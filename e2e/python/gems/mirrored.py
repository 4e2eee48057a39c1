"""Two Weirs, one of which mirrors the other."""

import contextlib
import json
import os

from index import Index

os.environ["WEIR_E2E_HOOK_SECRET"] = "correct-horse"
SECRET = '{ env = "WEIR_E2E_HOOK_SECRET" }'
# Nothing but webhooks and what a test asks for brings anything.
SELDOM = 'interval = "1h"\nreconcile_interval = "1d"\n'


def mirroring(upstream, policy="", seldom=SELDOM):
    """Settings of a mirror."""
    named = f'policy = "{policy}"\n' if policy else ""
    return (
        f'[gems.mirror]\n{named}{seldom}[gems.mirror.limits]\nadvanced.backoff_min = "10ms"\nadvanced.backoff_max = "200ms"\n'
        'silence_timeout = "2s"\nconnect_timeout = "2s"\nadvanced.hook_attempts_max = 1000000\n'
        f'[[gems.mirror.upstreams]]\nname = "one"\nurl = "{upstream.url}"\nhook_secret = {SECRET}\n'
    )


def telling(mirror):
    """Settings of an upstream whose webhooks go to a mirror."""
    return (
        '[gems.webhooks]\nretry_delay_min = "10ms"\nretry_delay_max = "200ms"\n'
        '[[gems.webhooks.endpoints]]\nname = "mirror"\n'
        f'url = "{mirror.url}/api/v1/hooks/rubygems"\nsecret = {SECRET}\napi_key = {SECRET}\n'
    )


@contextlib.contextmanager
def pair(policy=""):
    """An upstream and its mirror."""
    with contextlib.ExitStack() as stack:
        upstream = Index()
        stack.callback(upstream.close)
        path = ""
        if policy:
            path = upstream.folder / "policy"
            path.write_text(policy)
        mirror = Index(mirroring(upstream, path))
        stack.callback(mirror.close)
        yield upstream, mirror


def tell(upstream, mirror):
    """From now on the upstream tells the mirror of each push."""
    upstream.reload(telling(mirror))
    known = 'weir_gems_webhook_events_waiting{endpoint="mirror"} 0'
    upstream.until(lambda: known in upstream.metrics())


def state(mirror):
    """Of the one upstream."""
    return json.loads(mirror.command("gems", "mirror", "status", "--json"))["upstreams"][0]


def is_same(upstream, mirror, name):
    """Whether the mirror says of a gem what its upstream says, digests included."""
    theirs, ours = (index.get(f"/info/{name}") for index in (upstream, mirror))
    return (ours.status, ours.content, ours.headers["ETag"]) == (theirs.status, theirs.content, theirs.headers["ETag"])
