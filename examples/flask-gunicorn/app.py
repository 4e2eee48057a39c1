import os

from flask import Flask

app = Flask(__name__)


@app.get("/")
def hello():
    return f"Hello from process {os.getpid()}\n"


@app.get("/health")
def health():
    return "fine\n"
