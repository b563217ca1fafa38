"""
Compare ten networks of PyTorch, exported by torch-mlir, with their int8 models.

    python -m tests.oracles.torch_networks --networks mlp,cnn

The environment needs torch, `torch-mlir` (installed with `--no-deps`) and `packaging`. Each
line has the largest difference of the compiled float module from PyTorch, relative to the
largest result, and the SQNR of the int8 model on the 64 samples that calibrate it. The exit
code is 1 if a difference exceeds 2e-6, a kernel stays in floating point, or the SQNR is
below 20 dB.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from xdsl_quant.execution import compile
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import as_module

_SAMPLES, _BATCH = 64, 2
_TOLERANCE, _LOWEST_SQNR = 2e-6, 20.0


def networks(torch: Any) -> dict[str, tuple[Any, Any]]:
    """
    Return modules of PyTorch in evaluation mode, each with its samples.

    Args:
        torch: the package, which has no type information here.
    """
    nn = torch.nn
    functional: Any = import_module("torch.nn.functional")

    def module(forward: Any, **layers: Any) -> Any:
        network = type("Network", (nn.Module,), {"forward": forward})()
        for name, layer in layers.items():
            setattr(network, name, layer)
        return network

    def residual(net: Any, x: Any) -> Any:
        x = functional.relu(net.stem(x))
        y = net.norm2(net.conv2(functional.relu(net.norm1(net.conv1(x)))))
        return net.head(functional.relu(x + y).mean((2, 3)))

    def attention(net: Any, x: Any) -> Any:
        batch, length, channels = x.shape
        q, k, v = (
            layer(net.norm(x)).view(batch, length, 2, channels // 2).transpose(1, 2)
            for layer in (net.q, net.k, net.v)
        )
        weights = (q @ k.transpose(2, 3) / (channels // 2) ** 0.5).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, channels)
        return x + net.out(y)

    def lstm(net: Any, x: Any) -> Any:
        h = c = torch.zeros(x.shape[0], 12)
        for step in range(x.shape[1]):
            h, c = net.cell(x[:, step], (h, c))
        return net.head(h)

    def excitation(net: Any, x: Any) -> Any:
        x = functional.relu(net.conv(x))
        squeezed = functional.relu(net.down(functional.adaptive_avg_pool2d(x, 1)))
        return net.head((x * torch.sigmoid(net.up(squeezed))).mean((2, 3)))

    def embedding(net: Any, x: Any) -> Any:
        return net.head(torch.tanh(net.layer(net.table(x))).mean(1))

    def gelu_block(net: Any, x: Any) -> Any:
        return x + net.down(functional.gelu(net.up(net.norm(x))))

    def conv(inputs: int, outputs: int, size: int = 3, **options: Any) -> Any:
        return nn.Conv2d(inputs, outputs, size, padding=size // 2, **options)

    torch.manual_seed(0)
    images, rows = torch.randn(_SAMPLES, 3, 8, 8), torch.randn(_SAMPLES, 16)
    sequences = torch.randn(_SAMPLES, 6, 16)
    found = {
        "cnn": (
            nn.Sequential(
                *(conv(3, 8), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
                *(conv(8, 16, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
                *(nn.Flatten(), nn.Linear(16, 10)),
            ),
            images,
        ),
        "residual": (
            module(
                residual,
                stem=conv(3, 8),
                conv1=conv(8, 8, bias=False),
                norm1=nn.BatchNorm2d(8),
                conv2=conv(8, 8, bias=False),
                norm2=nn.BatchNorm2d(8),
                head=nn.Linear(8, 10),
            ),
            images,
        ),
        "depthwise": (
            nn.Sequential(
                *(conv(3, 16, 1), nn.ReLU6(), conv(16, 16, groups=16), nn.ReLU6()),
                *(conv(16, 8, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)),
            ),
            images,
        ),
        "attention": (
            module(
                attention,
                norm=nn.LayerNorm(16),
                **{name: nn.Linear(16, 16) for name in ("q", "k", "v", "out")},
            ),
            sequences,
        ),
        "lstm": (
            module(lstm, cell=nn.LSTMCell(6, 12), head=nn.Linear(12, 4)),
            torch.randn(_SAMPLES, 5, 6),
        ),
        "embedding": (
            module(
                embedding,
                table=nn.Embedding(50, 16),
                layer=nn.Linear(16, 16),
                head=nn.Linear(16, 5),
            ),
            torch.randint(0, 50, (_SAMPLES, 7)),
        ),
        "mlp": (
            nn.Sequential(
                *(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh()),
                nn.Linear(32, 10),
            ),
            rows,
        ),
        "gelu block": (
            module(
                gelu_block,
                norm=nn.LayerNorm(16),
                up=nn.Linear(16, 64),
                down=nn.Linear(64, 16),
            ),
            sequences,
        ),
        "group norm": (
            nn.Sequential(conv(3, 8), nn.GroupNorm(2, 8), nn.SiLU(), conv(8, 8)),
            images,
        ),
        "squeeze and excitation": (
            module(
                excitation,
                conv=conv(3, 16),
                down=conv(16, 4, 1),
                up=conv(4, 16, 1),
                head=nn.Linear(16, 10),
            ),
            images,
        ),
    }
    for network, _ in found.values():
        _train_norms(nn, network.eval())
    return found


def _train_norms(nn: Any, network: Any) -> None:
    """Give batch norms other statistics than 0 and 1."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values, low, high in (
                (layer.running_mean, -0.2, 0.2),
                (layer.running_var, 0.5, 1.5),
                (layer.weight.data, 0.5, 1.5),
                (layer.bias.data, -0.2, 0.2),
            ):
                values.uniform_(low, high)


def compare(torch: Any, network: Any, samples: Any) -> tuple[float, float, int]:
    """
    Return the largest difference of the compiled float module relative to the largest
    result, the SQNR of the int8 model in dB, and the number of kernels in floating point.
    """
    program = torch.export.export(network, (samples[:_BATCH],))
    with torch.no_grad():
        batches = [samples[i : i + _BATCH] for i in range(0, _SAMPLES, _BATCH)]
        expected = np.concatenate([network(batch).numpy() for batch in batches])
    module = as_module(program)
    compiled = compile(module)
    results = np.concatenate([np.asarray(compiled(b.numpy())) for b in batches])
    difference = float(np.abs(results - expected).max() / np.abs(expected).max())
    report = quantize(module, samples.numpy()).report(samples.numpy())
    in_float = sum(not kernel.result_type for kernel in report.kernels)
    (sqnr,) = report.outputs.values()
    return difference, sqnr, in_float


def main(args: Sequence[str] | None = None) -> int:
    """Compare networks and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", default="")
    options = parser.parse_args(args)
    # Not among the requirements of the tests.
    torch: Any = import_module("torch")
    names, failed = [name for name in options.networks.split(",") if name], False
    for name, (network, samples) in networks(torch).items():
        if names and name not in names:
            continue
        difference, sqnr, in_float = compare(torch, network, samples)
        print(f"{name:22}  {difference:.1e}  {sqnr:5.1f} dB  {in_float}", flush=True)
        failed |= difference > _TOLERANCE or sqnr < _LOWEST_SQNR or in_float > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
