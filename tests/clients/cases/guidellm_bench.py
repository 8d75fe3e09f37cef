"""guidellm: a benchmark over chat, completions and responses."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from client_case import KEY, MODEL, URL, run

GUIDELLM = Path(sys.executable).with_name("guidellm")
TOKENIZER = os.environ.get("SPECGUIDE_TOKENIZER", "")
ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
NUM_REQUESTS = 4


def told(route, model=MODEL):
    """Requests that ended well, and those that did not."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        backend = f"kind=openai_http,target={URL},api_key={KEY}"
        command = [GUIDELLM, "run", "--backend", f"{backend},model={model},request_format={route}"]
        command += ["--profile", "kind=concurrent,streams=2"]
        command += ["--constraint", f"kind=max_requests,count={NUM_REQUESTS}"]
        command += ["--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=8"]
        command += ["--tokenizer", f"kind=hf_auto,model={TOKENIZER}"]
        command += ["--output", f"kind=json,path={out}", "--disable-console"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert out.exists(), done.stderr[-200:]
        [benchmark] = json.loads(out.read_text())["benchmarks"]
        return benchmark["requests"]["successful"], benchmark["requests"]["errored"]


def streaming():
    """guidellm streams; it has counted the tokens of each answer."""
    for route in ROUTES:
        good, bad = told(route)
        assert good and not bad, (route, bad[:1])


def errors():
    good, bad = told(ROUTES[0], model="another")
    assert bad and not good


if __name__ == "__main__":
    run(globals())
