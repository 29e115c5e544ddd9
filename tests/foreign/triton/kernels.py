"""Kernels in Triton, compiled without a GPU: `kernels.py FOLDER` writes a code object for each kernel and architecture into the
folder, and `list.txt` with a line for each: name, architecture, threads of a workgroup, bytes of LDS."""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ARCHITECTURES = {"gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=at < n)


@triton.jit
def softmax(x, out, width, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * width
    value = tl.load(x + row + at, mask=at < width, other=float("-inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row + at, value / tl.sum(value, axis=0), mask=at < width)


@triton.jit
def layer_norm(x, weight, bias, out, width, epsilon, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * width
    value = tl.load(x + row + at, mask=at < width, other=0.0)
    mean = tl.sum(value, axis=0) / width
    centred = tl.where(at < width, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + epsilon)
    value = centred * scale * tl.load(weight + at, mask=at < width) + tl.load(bias + at, mask=at < width)
    tl.store(out + row + at, value, mask=at < width)


@triton.jit
def running_sum(x, out, width, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * width
    value = tl.load(x + row + at, mask=at < width, other=0.0)
    tl.store(out + row + at, tl.cumsum(value, axis=0), mask=at < width)


@triton.jit
def largest(x, out, width, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * width + at, mask=at < width, other=float("-inf"))
    tl.store(out + tl.program_id(0), tl.argmax(value, axis=0))


@triton.jit
def sorted_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    y = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (y[:, None] < rows) & (z[None, :] < columns)
    value = tl.load(x + y[:, None] * columns + z[None, :], mask=inside)
    tl.store(out + z[:, None] * rows + y[None, :], tl.trans(value), mask=tl.trans(inside))


@triton.jit
def count(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def matmul(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SUM: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), dtype=SUM)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        left = tl.load(a + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0)
        right = tl.load(b + inner[:, None] * n + column[None, :], mask=(inner[:, None] < k) & (column[None, :] < n), other=0)
        sums = tl.dot(left, right, sums, out_dtype=SUM)
    tl.store(out + row[:, None] * n + column[None, :], sums, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def attention(q, k, v, out, rows, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * rows * D
    row = tl.program_id(0) * M + tl.arange(0, M)
    element = tl.arange(0, D)
    query = tl.load(q + base + row[:, None] * D + element[None, :], mask=row[:, None] < rows, other=0.0)
    peak = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * M, N):
        key = start + tl.arange(0, N)
        keys = tl.load(k + base + key[None, :] * D + element[:, None], mask=key[None, :] < rows, other=0.0)
        values = tl.load(v + base + key[:, None] * D + element[None, :], mask=key[:, None] < rows, other=0.0)
        seen = (key[None, :] <= row[:, None]) & (key[None, :] < rows)
        score = tl.where(seen, tl.dot(query, keys) * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, axis=1))
        weight = tl.exp(score - higher[:, None])
        fade = tl.exp(peak - higher)
        total = total * fade + tl.sum(weight, axis=1)
        sums = sums * fade[:, None] + tl.dot(weight.to(values.dtype), values)
        peak = higher
    tl.store(out + base + row[:, None] * D + element[None, :], sums / total[:, None], mask=row[:, None] < rows)


ROW = {"BLOCK": 512}
TILE = {"M": 64, "N": 64, "K": 32}
WIDE_TILE = {"M": 128, "N": 64, "K": 64}

# Name, function, types of the arguments that are not constants, constants, waves.
KERNELS = [
    ("add", add, ["*fp32", "*fp32", "*fp32", "i32"], {"BLOCK": 256}, 4),
    ("gelu", gelu, ["*fp32", "*fp32", "i32"], {"BLOCK": 256}, 4),
    ("softmax", softmax, ["*fp32", "*fp32", "i32"], ROW, 4),
    ("layer_norm", layer_norm, ["*fp32", "*fp32", "*fp32", "*fp32", "i32", "fp32"], ROW, 4),
    ("running_sum", running_sum, ["*fp32", "*fp32", "i32"], ROW, 4),
    ("largest", largest, ["*fp32", "*i32", "i32"], ROW, 4),
    ("sorted_rows", sorted_rows, ["*fp32", "*fp32"], {"BLOCK": 256}, 4),
    ("transpose", transpose, ["*fp32", "*fp32", "i32", "i32"], {"BLOCK": 32}, 4),
    ("count", count, ["*i32", "*i32", "i32"], {"BLOCK": 256}, 4),
    ("matmul_f16", matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32", "i32"], {**TILE, "SUM": tl.float32}, 4),
    ("matmul_bf16", matmul, ["*bf16", "*bf16", "*fp32", "i32", "i32", "i32"], {**TILE, "SUM": tl.float32}, 4),
    ("matmul_f32", matmul, ["*fp32", "*fp32", "*fp32", "i32", "i32", "i32"], {**TILE, "SUM": tl.float32}, 4),
    ("matmul_i8", matmul, ["*i8", "*i8", "*i32", "i32", "i32", "i32"], {**TILE, "SUM": tl.int32}, 4),
    ("matmul_f16_stages", matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32", "i32"], {**WIDE_TILE, "SUM": tl.float32}, 8),
    ("attention_f16", attention, ["*fp16", "*fp16", "*fp16", "*fp32", "i32", "fp32"], {"M": 64, "N": 32, "D": 64}, 4),
    ("attention_bf16", attention, ["*bf16", "*bf16", "*bf16", "*fp32", "i32", "fp32"], {"M": 128, "N": 64, "D": 128}, 4),
]


def main(folder):
    lines = []
    for name, function, types, constants, waves in KERNELS:
        names = function.arg_names
        signature = dict(zip(names, types)) | {constant: "constexpr" for constant in constants}
        values = {(names.index(constant),): value for constant, value in constants.items()}
        # Pointers are aligned as the emulator aligns them.
        aligned = {(names.index(n),): [["tt.divisibility", 16]] for n, kind in zip(names, types) if kind.startswith("*")}
        for arch, lanes in ARCHITECTURES.items():
            source = ASTSource(fn=function, signature=signature, constexprs=values, attrs=aligned)
            options = {"num_warps": waves, "num_stages": 2}
            compiled = triton.compile(source, target=GPUTarget("hip", arch, lanes), options=options)
            (folder / f"{name}-{arch}.co").write_bytes(compiled.asm["hsaco"])
            lines.append(f"{name} {arch} {waves * lanes} {compiled.metadata.shared}\n")
    (folder / "list.txt").write_text("".join(lines))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
