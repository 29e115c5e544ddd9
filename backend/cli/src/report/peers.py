# Times in PyTorch the operators that bench-ops has timed, on the same card, with rotating buffers and events as there.
# Arguments: the JSON of bench-ops, the JSON to write, seconds.
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(0)

DEVICE = os.environ.get("ROCFIRE_PEER_DEVICE", "cuda")
if DEVICE == "cuda" and not torch.cuda.is_available():
    print("skipped: PyTorch", torch.__version__, "reaches no card")
    sys.exit(0)

ROTATION_BYTES = 1 << 30 if DEVICE == "cuda" else 1 << 20
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


def numbers(shape):
    return [int(word) for word in shape.replace("x", " ").replace("^2", " ").replace("->", " ").split() if word.isdigit()]


def operator(name, shape, dtype):
    """Makes the buffers of one call, and runs it on such buffers. None for what PyTorch has no operator for."""

    def normal(*extents):
        return torch.randn(extents, device=DEVICE, dtype=torch.float32).to(dtype)

    n = numbers(shape.split(" B as")[0])
    if name.startswith("product ") and len(n) == 3 and name.split()[1] in DTYPES and "," not in name:
        across = "B as [N, K]" in shape
        make = lambda: (normal(n[0], n[2]), normal(n[1], n[2]) if across else normal(n[2], n[1]))
        return make, (lambda a, b: a @ b.t()) if across else (lambda a, b: a @ b)
    if name.startswith("attention f16"):
        causal, both = "causal" in name, "both" in name
        if both:
            def run(q, k, v, g):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                return torch.autograd.grad(out, (q, k, v), g)
            make = lambda: tuple(normal(*n).requires_grad_() for _ in range(3)) + (normal(*n),)
            return make, run
        return (lambda: tuple(normal(*n) for _ in range(3))), lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if name == "conv f16":
        batch, side, channels, out = n
        return (lambda: (normal(batch, channels, side, side), normal(out, channels, 3, 3))), lambda x, w: F.conv2d(x, w, padding=1)
    if name == "max pool f16":
        batch, channels, side = n[:3]
        return (lambda: (normal(batch, channels, side, side),)), lambda x: F.max_pool2d(x, 3, 2, 1)
    if name == "bilinear f16":
        batch, channels, side = n[:3]
        return (lambda: (normal(batch, channels, side, side),)), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")
    two = lambda: (normal(*n), normal(*n))
    one = lambda: (normal(*n),)
    scaled = lambda: (normal(*n), normal(n[-1]))
    gate = lambda x, y: F.silu(x) * y
    table = {
        "add": (two, lambda x, y: x + y),
        "gelu chain": (lambda: tuple(normal(*n) for _ in range(4)), lambda a, b, c, d: torch.tanh(F.gelu(a * b + c) * d) + a),
        "silu mul": (two, gate),
        "silu gate launcher": (two, gate),
        "softmax": (one, lambda x: torch.softmax(x, -1)),
        "softmax launcher": (one, lambda x: torch.softmax(x, -1)),
        "rms norm": (scaled, lambda x, w: F.rms_norm(x, (n[-1],), w, 1e-5)),
        "rms norm launcher": (scaled, lambda x, w: F.rms_norm(x, (n[-1],), w, 1e-5)),
        "layer norm": (lambda: scaled() + (normal(n[-1]),), lambda x, w, b: F.layer_norm(x, (n[-1],), w, b)),
        "layer norm launcher": (lambda: scaled() + (normal(n[-1]),), lambda x, w, b: F.layer_norm(x, (n[-1],), w, b)),
        "sum": (one, lambda x: x.sum() if len(n) == 1 else x.sum(-1)),
        "transpose": (one, lambda x: x.t().contiguous()),
    }
    return table.get(name.rsplit(" ", 1)[0])


def milliseconds(make, run):
    """The median of batches between two events."""
    first = make()
    bytes_of = sum(tensor.numel() * tensor.element_size() for tensor in first)
    sets = [first] + [make() for _ in range(min(64, max(1, ROTATION_BYTES // max(1, bytes_of))))]

    def batch(count):
        if DEVICE != "cuda":
            begun = time.perf_counter()
            for i in range(count):
                run(*sets[i % len(sets)])
            return (time.perf_counter() - begun) * 1e3 / count
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(count):
            run(*sets[i % len(sets)])
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / count

    batch(5)
    count = max(2, min(2000, int(2.0 / max(batch(5), 1e-4)) + 1))
    return statistics.median(batch(count) for _ in range(15))


def main():
    source, target, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    try:
        with open(source) as file:
            ours = json.load(file)["rows"]
    except OSError:
        print("skipped: bench-ops has timed nothing that could be compared")
        return
    ends, rows, left, none = time.monotonic() + seconds, [], 0, 0
    print("PyTorch", torch.__version__)
    for row in ours:
        words = [word for word in row["operator"].replace(",", " ").split() if word in DTYPES]
        found = operator(row["operator"], row["shape"], DTYPES[words[0]]) if words else None
        if found is None:
            none += 1
            continue
        if time.monotonic() >= ends:
            left += 1
            continue
        try:
            with torch.set_grad_enabled("both" in row["operator"]):
                ms = milliseconds(*found)
        except RuntimeError as error:
            print(row["operator"], row["shape"], "failed in PyTorch:", str(error).splitlines()[0])
            continue
        rows.append({"operator": row["operator"], "shape": row["shape"], "ours_ms": row["ms"], "peer_ms": ms})
        print(f"{row['operator']:<26} {row['shape']:<26} ours {row['ms']:9.4f} ms, PyTorch {ms:9.4f}, {ms / row['ms']:5.2f}x", flush=True)
        with open(target, "w") as file:
            json.dump({"peer": "PyTorch " + torch.__version__, "rows": rows}, file, indent=1)
    print(f"{len(rows)} operators compared, {none} that PyTorch has no one operator for" + (f", {left} left out for time" if left else ""))


main()
