"""How fast a checkpoint is loaded from the disk to its device, and how much memory that takes at
most.

    python -m benchmarks.loading [--format bfloat16|fp8|"fp8 blocks"|int4|…] [--model 8b|1b|tiny]
    [--layers N] [--shard-gb 5] [--folder FOLDER] [--repeats 3] [--no-save]

Writes a checkpoint of random bytes at Llama-3.1-8B or Llama-3.2-1B shapes, in the tensors that the
format has, reads each file once so that the disk is warm, and loads it: on a GPU in bfloat16 where
there is one, else on the CPU. The first tensors are compared with the files. Prints a table, then
one JSON line. A folder that is named stays, and is read again where it holds a checkpoint.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.models.llama_8b import LLAMA_1B, LLAMA_8B, QUANTIZED, TINY
from specguide.layers.destination import Destination
from specguide.models import Decoder, config_of
from specguide.models.weights import INDEX_FILE, weight_files

MODELS = {"8b": LLAMA_8B, "1b": LLAMA_1B, "tiny": TINY}
FORMATS: dict[str, dict[str, Any] | None] = {"bfloat16": None} | QUANTIZED
_GB = 10**9


def write_checkpoint(folder: Path, config: dict[str, Any], shard_bytes: float) -> None:
    """config.json, and every tensor that the model asks for, of random bytes, in shards of at most
    `shard_bytes`."""
    destinations = Decoder.skeleton(config_of(config)).destinations()
    weight_map: dict[str, str] = {}
    for number, names in enumerate(_shards(destinations, shard_bytes)):
        shard = f"model-{number:05}.safetensors"
        save_file({name: _random(destinations[name]) for name in names}, folder / shard)
        weight_map |= dict.fromkeys(names, shard)
    (folder / INDEX_FILE).write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(config))


def _shards(destinations: dict[str, Destination], most: float) -> Iterator[list[str]]:
    names: list[str] = []
    num_bytes = 0
    for name, destination in destinations.items():
        if destination.is_optional:
            continue
        size = _num_bytes(destination)
        if names and num_bytes + size > most:
            yield names
            names = []
            num_bytes = 0
        names.append(name)
        num_bytes += size
    yield names


def _stored_dtype(destination: Destination) -> torch.dtype:
    """A skeleton's model has float32; a checkpoint's numbers have two bytes."""
    dtype = destination.stored_dtype or destination.tensor.dtype
    return torch.bfloat16 if dtype == torch.float32 else dtype


def _num_bytes(destination: Destination) -> int:
    return torch.Size(destination.shape).numel() * _stored_dtype(destination).itemsize


def _random(destination: Destination) -> Tensor:
    bytes_ = torch.randint(0, 256, (_num_bytes(destination),), dtype=torch.uint8)
    return bytes_.view(_stored_dtype(destination)).view(destination.shape)


def load_once(folder: Path, device: torch.device, max_len: int = 4096) -> dict[str, Any]:
    """One load, checked: seconds, and gigabytes that the host and the device took at most."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _host_gb("VmRSS")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    decoder = Decoder.load(folder, device, torch.bfloat16, max_positions=max_len)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = _host_gb("VmHWM") - before
    _check(folder, decoder)
    return {
        "seconds": round(seconds, 2),
        "model_gb": round(sum(it.tensor.nbytes for it in decoder.destinations().values()) / _GB, 2),
        "host_peak_gb": round(peak, 2),
        "device_peak_gb": round(torch.cuda.max_memory_allocated() / _GB, 2)
        if device.type == "cuda"
        else 0.0,
    }


def _host_gb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(it.split()[1]) for it in lines if it.startswith(f"{name}:")) * 1024 / _GB


def _check(folder: Path, decoder: Decoder) -> None:
    name = "model.embed_tokens.weight"
    shard = json.loads((folder / INDEX_FILE).read_text())["weight_map"][name]
    with safe_open(folder / shard, framework="pt") as file:
        stored = file.get_tensor(name).view(torch.int16)
    loaded = decoder.destinations()[name].tensor.cpu().view(torch.int16)
    if not torch.equal(stored, loaded):
        raise SystemExit("what was loaded is not what the file holds")


def warm(files: tuple[Path, ...]) -> int:
    """Bytes of the files, which lie in the system's cache behind this if it has room for them."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(64 << 20):
                pass
    return sum(path.stat().st_size for path in files)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--format", choices=FORMATS, default="fp8")
    parser.add_argument("--model", choices=MODELS, default="8b")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--shard-gb", type=float, default=5.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = MODELS[options.model] | {"quantization_config": FORMATS[options.format]}
    if options.layers is not None:
        config["num_hidden_layers"] = options.layers
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / INDEX_FILE).exists():
            write_checkpoint(folder, config, options.shard_gb * _GB)
        num_bytes = warm(weight_files(folder))
        runs = [load_once(folder, device) for _ in range(options.repeats)]
    for run in runs:
        run["gb_per_s"] = round(num_bytes / _GB / run["seconds"], 2)
        print("   ".join(f"{name} {value:g}" for name, value in run.items()))
    settings = {name: str(value) for name, value in vars(options).items() if name != "no_save"}
    emit("loading", settings | {"file_gb": num_bytes / _GB}, runs, save=not options.no_save)


if __name__ == "__main__":
    main()
