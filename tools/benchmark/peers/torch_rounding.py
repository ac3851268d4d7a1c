"""Nets in PyTorch whose weights and blobs are rounded to 8 bits, for quantization_limits.py."""
import math

import numpy as np
import torch
import torch.fx
import torch.nn.functional as F
from torch import nn

BATCH = 20


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return torch.round(x)

    @staticmethod
    def backward(_, gradient):
        return gradient


def rounded_weights(w):
    largest = w.detach().abs().amax(tuple(range(1, w.dim())), keepdim=True)
    scale = (largest / 127).clamp_min(1e-12)
    return _Round.apply(w / scale) * scale


def rounded(x, low, high):
    """x as codes of 8 bits for [low, high], which contains 0."""
    scale = (high - low) / 255
    zero = torch.round(-low.detach() / scale.detach())
    return (torch.clamp(_Round.apply(x / scale) + zero, 0, 255) - zero) * scale


def best_range(x):
    """The part of [min, max] with the least squared error of rounding and clipping."""
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    factors = np.linspace(0.3, 1, 36)
    errors = [float(((rounded(x, low * f, high * f) - x) ** 2).sum()) for f in factors]
    factor = factors[int(np.argmin(errors))]
    return low * factor, high * factor


class Rounded(torch.fx.Interpreter):
    """Runs a module with weights and blobs rounded, those of `parts` only if it is not None."""

    def __init__(self, module, ranges=None, parts=None):
        super().__init__(module)
        self.ranges = {} if ranges is None else ranges
        self.observes = ranges is None
        self.parts = parts
        modules = dict(module.named_modules())
        stored = {'placeholder': lambda n: True,
                  'call_module': lambda n: isinstance(modules[n.target],
                                                      (nn.Conv2d, nn.Linear, nn.ReLU)),
                  'call_function': lambda n: n.target is torch.cat}
        self.stored = [n for n in module.graph.nodes
                       if stored.get(n.op, lambda n: False)(n)
                       and not any(isinstance(modules.get(user.target), nn.ReLU)
                                   or user.target is torch.cat for user in n.users)]

    def run_node(self, n):
        value = super().run_node(n)
        if n not in self.stored or (self.parts is not None and n.name not in self.parts):
            return value
        if self.observes:
            self.ranges[n.name] = best_range(value)
            return value
        low, high = self.ranges[n.name]
        return rounded(value, low, high)

    def call_module(self, target, args, kwargs):
        module = self.submodules[target]
        if (self.observes or not isinstance(module, (nn.Conv2d, nn.Linear)) or
                (self.parts is not None and target not in self.parts)):
            return super().call_module(target, args, kwargs)
        weights = rounded_weights(module.weight)
        if isinstance(module, nn.Linear):
            return F.linear(args[0], weights, module.bias)
        return module._conv_forward(args[0], weights, module.bias)


def decibels(exact, found):
    noise = max(float(((found - exact) ** 2).sum()), 1e-30)
    return 10 * math.log10(float((exact ** 2).sum()) / noise)


def scores(run, images):
    with torch.no_grad():
        return torch.cat([run(images[i:i + 4 * BATCH]).flatten(1)
                          for i in range(0, len(images), 4 * BATCH)]).double()


def tune(module, exact_module, images, ranges, steps, rate):
    """Trains on the first images; returns a function that runs the rounded net."""
    logs = {name: torch.zeros(2, device=images.device, requires_grad=True) for name in ranges}
    run = Rounded(module, ranges)

    def forward(x):
        run.ranges = {name: (low * logs[name][0].exp(), high * logs[name][1].exp())
                      for name, (low, high) in ranges.items()}
        return run.run(x).flatten(1)
    groups = [{'params': list(logs.values()), 'lr': 50 * rate / 3}]
    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            deviation = float(layer.weight.detach().std())
            groups.append({'params': [layer.weight], 'lr': rate * deviation})
            groups.append({'params': [layer.bias], 'lr': 5 * rate * deviation})
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / 50) * (1 + math.cos(math.pi * i / steps)) / 2)
    random = np.random.default_rng(0)
    power = (scores(exact_module, images) ** 2).mean()
    for _ in range(steps):
        x = images[random.choice(len(images), BATCH, replace=False)]
        mirrored = torch.tensor(random.random(BATCH) < 0.5, device=x.device)
        x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
        with torch.no_grad():
            wanted = exact_module(x).flatten(1)
        loss = ((forward(x) - wanted) ** 2).mean() / power
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return forward
