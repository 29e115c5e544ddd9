"""Trains in PyTorch what `models train --export DIR` describes: the same weights, batches and recipe.

    python train_torch.py DIR --out eager.json
    python train_torch.py DIR --compile --out compiled.json

Needs torch and numpy. Without --autocast it does what the Rust side does: weights in 16 bits that compute, weights in f32 that the
optimizer steps (batch normalisation in f32). With it the weights are f32 and torch.autocast casts, as many programs do. Attention is
scaled_dot_product_attention behind one product for queries, keys and values, AdamW the fused one. The loss is computed in f32.
"""

import argparse
import json
import math
import statistics
import time
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn import functional

DTYPES = {"F32": numpy.float32, "I32": numpy.int32, "U8": numpy.uint8}
PRECISIONS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Steps after which nothing is compiled or searched for any more.
COLD_STEPS = 10
PRODUCT, PRODUCTS, ROUNDS = 8192, 10, 5
TITLES = (
    "side                      warm ms    cold s  steps  compiled  launches  peak MiB  reserved  live MiB    items/s"
    "  TFLOP/s   share     first      last"
)


def read_safetensors(path):
    """Name -> numpy array."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        arrays[name] = numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.input = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        batch, context, width = x.shape
        parts = self.input(x).view(batch, context, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.output(x.transpose(1, 2).reshape(batch, context, width))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm_attention(x))
        return x + self.mlp_out(functional.gelu(self.mlp_in(self.norm_mlp(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([GptBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, words, targets):
        places = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.places(places)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    @staticmethod
    def adapt(weights):
        """Queries, keys and values are three products on the Rust side."""
        names = ("query", "key", "value")
        adapted = {name: value for name, value in weights.items() if not any(f".{part}." in name for part in names)}
        for name in weights:
            if ".query." in name:
                parts = [weights[name.replace(".query.", f".{part}.")] for part in names]
                adapted[name.replace(".query.", ".input.")] = numpy.concatenate(parts)
        return adapted


class ConvNorm(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))


class ResNetBlock(nn.Module):
    def __init__(self, inputs, inner, stride):
        super().__init__()
        outputs = 4 * inner
        self.inner = nn.ModuleList([ConvNorm(inputs, inner, 1, 1), ConvNorm(inner, inner, 3, stride)])
        self.last = ConvNorm(inner, outputs, 1, 1)
        self.around = ConvNorm(inputs, outputs, 1, stride) if inputs != outputs or stride != 1 else None

    def forward(self, x):
        y = x
        for conv in self.inner:
            y = functional.relu(conv(y), inplace=True)
        around = x if self.around is None else self.around(x)
        return functional.relu(self.last(y) + around, inplace=True)


class ResNet50(nn.Module):
    def __init__(self, width, classes, side):
        super().__init__()
        self.stem = ConvNorm(3, width, 7, 2)
        blocks, inputs = [], width
        for stage, count in enumerate([3, 4, 6, 3]):
            for number in range(count):
                inner = width << stage
                blocks.append(ResNetBlock(inputs, inner, 2 if stage > 0 and number == 0 else 1))
                inputs = 4 * inner
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, images, targets):
        x = functional.max_pool2d(functional.relu(self.stem(images), inplace=True), 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x.mean((2, 3))).float(), targets)

    @staticmethod
    def adapt(weights):
        return weights


class Trainer:
    """One training step after another."""

    def __init__(self, model, recipe, arguments):
        self.recipe, self.arguments = recipe, arguments
        self.dtype = PRECISIONS[recipe["precision"]]
        self.copies = []
        weights = list(model.parameters())
        if self.dtype != torch.float32 and not arguments.autocast:
            weights = [weight.detach().clone().requires_grad_() for weight in weights]
            kept = {id(p) for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
            for parameter in model.parameters():
                if id(parameter) not in kept:
                    parameter.data = parameter.data.to(self.dtype)
            self.copies = list(model.parameters())
        self.model = torch.compile(model) if arguments.compile else model
        self.weights = weights
        rule = recipe["rule"]
        if rule["kind"] == "adamw":
            self.optimizer = torch.optim.AdamW(
                weights, recipe["rate"], (rule["beta_1"], rule["beta_2"]), rule["epsilon"], rule["decay"], fused=True
            )
        else:
            self.optimizer = torch.optim.SGD(
                weights, recipe["rate"], rule["momentum"], weight_decay=rule["decay"], fused=True
            )

    def loss(self, part):
        if self.arguments.autocast:
            with torch.autocast(self.arguments.device, self.dtype):
                return self.model(*part)
        return self.model(*part)

    def step(self, number, parts):
        """The loss before it and the norm of the gradients, both still on the device."""
        recipe = self.recipe
        for group in self.optimizer.param_groups:
            group["lr"] = recipe["rate"] * min(1.0, (number + 1) / max(1, recipe["warm_up"]))
        losses = []
        sums = None
        for part in parts:
            loss = self.loss(part)
            (loss * (recipe["loss_scale"] / len(parts))).backward()
            losses.append(loss.detach())
            if self.copies:
                gradients = [copy.grad for copy in self.copies]
                wide = [torch.empty_like(weight) for weight in self.weights]
                torch._foreach_copy_(wide, gradients)
                if sums is None:
                    sums = wide
                else:
                    torch._foreach_add_(sums, wide)
                for copy in self.copies:
                    copy.grad = None
        if self.copies:
            for weight, gradient in zip(self.weights, sums):
                weight.grad = gradient
        if recipe["loss_scale"] != 1.0:
            torch._foreach_mul_([weight.grad for weight in self.weights], 1.0 / recipe["loss_scale"])
        norm = None
        if recipe["clip"] is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.weights, recipe["clip"], foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.copies:
            with torch.no_grad():
                torch._foreach_copy_(self.copies, self.weights)
        return torch.stack(losses).mean(), norm


def batches_of(description, folder, arguments):
    """Of each batch the parts, on the device."""
    arrays = read_safetensors(folder / "batches.safetensors")
    parts = description["recipe"]["accumulate"]
    dtype = PRECISIONS[description["recipe"]["precision"]]
    batches = []
    if description["model"] == "gpt":
        for words in arrays["words"]:
            words = torch.from_numpy(words.astype(numpy.int64)).to(arguments.device)
            batches.append([(p[:, :-1].contiguous(), p[:, 1:].contiguous()) for p in words.chunk(parts)])
    else:
        for images, classes in zip(arrays["images"], arrays["classes"]):
            images = (torch.from_numpy(images.copy()).to(arguments.device).float() / 127.5 - 1.0).to(dtype)
            if arguments.channels_last:
                images = images.to(memory_format=torch.channels_last)
            classes = torch.from_numpy(classes.astype(numpy.int64)).to(arguments.device)
            batches.append(list(zip(images.chunk(parts), classes.chunk(parts))))
    return batches


def product_rate(dtype):
    """Operations a second of a product of 8192 x 8192 x 8192."""
    bound = math.sqrt(3.0 / PRODUCT)
    x = torch.empty(PRODUCT, PRODUCT, device="cuda").uniform_(-1, 1).to(dtype)
    factor = torch.empty(PRODUCT, PRODUCT, device="cuda").uniform_(-bound, bound).to(dtype)
    best = math.inf
    for number in range(ROUNDS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(PRODUCTS):
            x = x @ factor
        torch.cuda.synchronize()
        if number > 0:
            best = min(best, time.perf_counter() - start)
    return 2.0 * PRODUCT**3 * PRODUCTS / best


def launches_of(trainer, number, parts):
    """How many kernels a step is, and its profile."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        trainer.step(number, parts)
        torch.cuda.synchronize()
    kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [e for e in kernels if not e.name.startswith(("Memcpy", "Memset"))]
    return len(kernels), profile


def row(report):
    dash = lambda value, form: "-" if value is None else format(value, form)
    mebibytes = lambda count: count // (1 << 20)
    rate = None if report["warm_ms"] is None else 1e3 / report["warm_ms"]
    peak = report["peak_operations"]
    share = None if rate is None or peak is None else 100 * report["operations"] * rate / peak
    return (
        f"{report['name']:<23} {dash(report['warm_ms'], '.3f'):>9} {report['cold_s']:>9.1f} {report['cold_steps']:>6} "
        f"{'-':>9} {dash(report['launches'], 'd'):>9} {mebibytes(report['peak_bytes']):>9} "
        f"{mebibytes(report['reserved_bytes']):>9} {mebibytes(report['live_bytes']):>9} "
        f"{dash(rate and rate * report['items'], '.0f'):>10} {dash(rate and report['operations'] * rate / 1e12, '.1f'):>8} "
        f"{'-' if share is None else f'{share:.1f}%':>7} {report['losses'][0]:>9.4f} {report['losses'][-1]:>9.4f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compile", action="store_true", help="torch.compile of model and loss")
    parser.add_argument("--autocast", action="store_true", help="weights in f32, cast by torch.autocast")
    parser.add_argument("--channels-last", action="store_true", help="images and convolutions in NHWC")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="on a CPU the losses count, not the times")
    parser.add_argument("--read-every", type=int, default=1, help="steps between two reads of the losses")
    parser.add_argument("--peak", type=float, help="teraflops a second; measured if it is not given")
    parser.add_argument("--profile", action="store_true", help="prints the kernels of a step")
    parser.add_argument("--name", help="what it is called in tables and pictures")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    description = json.loads((arguments.folder / "run.json").read_text())
    recipe, steps = description["recipe"], description["steps"]
    kind = {"gpt": Gpt, "resnet50": ResNet50}[description["model"]]
    model = kind(**dict(description["sizes"])).to(arguments.device).train()
    weights = kind.adapt(read_safetensors(arguments.folder / "weights.safetensors"))
    weights = {name: torch.from_numpy(value.copy()) for name, value in weights.items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise SystemExit(f"the weights do not fit: {missing} are missing, {unexpected} unexpected")
    if arguments.channels_last:
        model = model.to(memory_format=torch.channels_last)

    trainer = Trainer(model, recipe, arguments)
    batches = batches_of(description, arguments.folder, arguments)
    is_gpu = arguments.device == "cuda"
    if is_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    losses, norms, step_ms, begun, cold_s = [], [], [], time.perf_counter(), None
    number = 0
    while number < steps:
        start = time.perf_counter()
        stepped = []
        for _ in range(min(arguments.read_every, steps - number)):
            stepped.append(trainer.step(number, batches[number % len(batches)]))
            number += 1
        read = torch.stack([value for pair in stepped for value in pair if value is not None]).float().tolist()
        wall = time.perf_counter() - start
        if not all(math.isfinite(value) for value in read):
            raise SystemExit(f"not finite before step {number}: {read}")
        each = len(read) // len(stepped)
        losses += read[::each]
        norms += read[1::each] if each == 2 else []
        step_ms += [1e3 * wall / len(stepped)] * len(stepped)
        if cold_s is None and number >= COLD_STEPS:
            cold_s = time.perf_counter() - begun
            cold_steps = number
    for name, value in [*model.named_parameters(), *((f"weight {n}", w) for n, w in enumerate(trainer.weights))]:
        if not torch.isfinite(value).all():
            raise SystemExit(f"{name} is not finite")
    peak = live = reserved = 0
    launches = rate = None
    if is_gpu:
        peak, live = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        reserved = torch.cuda.max_memory_reserved()
        launches, profile = launches_of(trainer, steps, batches[0])
        if arguments.profile:
            print(profile.key_averages().table(sort_by="self_device_time_total", row_limit=40, max_name_column_width=90))
        rate = arguments.peak * 1e12 if arguments.peak else product_rate(PRECISIONS[recipe["precision"]])
        print(f"shares are of {rate / 1e12:.1f} TFLOP/s")
    how = ["compiled" if arguments.compile else "eager"]
    how += ["autocast"] if arguments.autocast else []
    how += ["channels last"] if arguments.channels_last else []
    warm = step_ms[cold_steps:] if cold_s is not None else []
    report = {
        "name": arguments.name or "torch " + " ".join(how),
        "device": torch.cuda.get_device_name() if is_gpu else "cpu",
        "model": description["model"],
        "items": description["items"],
        "warm_ms": statistics.median(warm) if warm else None,
        "cold_s": cold_s if cold_s is not None else time.perf_counter() - begun,
        "cold_steps": cold_steps if cold_s is not None else steps,
        "compiled": None,
        "launches": launches,
        "peak_bytes": peak,
        "reserved_bytes": reserved,
        "live_bytes": live,
        "operations": description["operations"],
        "peak_operations": rate,
        "losses": losses,
        "norms": norms,
        "step_ms": step_ms,
    }
    print(TITLES)
    print(row(report))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report, indent=1))


main()
