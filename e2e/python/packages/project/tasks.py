"""Tasks that note in the file WEIR_E2E_NOTES what they do."""

import os
import time
from pathlib import Path

from django_weir_tasks import set_progress

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


def notes():
    """What tasks have noted, in order."""
    path = Path(os.environ["WEIR_E2E_NOTES"])
    return path.read_text().splitlines() if path.exists() else []


def note(text):
    """One short write is not mixed with those of others."""
    with open(os.environ["WEIR_E2E_NOTES"], "a") as file:
        file.write(f"{text}\n")


class Broken(Exception):
    """An error of a task."""


@task
def add(one, other, *, label=""):
    note(f"add {one} {other} {label}")
    return {"sum": one + other, "label": label}


@task(queue_name="mail")
async def send(text):
    note(f"send {text}")
    return text.upper()


@task
def fail(text):
    raise Broken(text)


@task(backend="retrying", queue_name="retrying", takes_context=True)
def fail_once(context):
    note(f"attempt {context.attempt}")
    if context.attempt == 1:
        raise Broken("the first attempt")
    return context.attempt


@task(takes_context=True)
def hold(context, name):
    """Runs until the file `name` exists."""
    note(f"hold {os.path.basename(name)} {os.getpid()}")
    set_progress(40, "waits")
    while not os.path.exists(name):
        time.sleep(0.01)
    note(f"done {os.path.basename(name)} {os.getpid()}")
    return context.task_result.id


@task
def large(characters):
    return "x" * characters


@task(backend="untracked", queue_name="untracked")
def forgotten():
    note("forgotten")


@task(backend="full", queue_name="full")
def crowded():
    return None


@task(backend="nobody")
def unreachable():
    return None


def no_task():
    """A function that no job may call."""
    note("no_task")
