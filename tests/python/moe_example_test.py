"""examples/moe: its nets, and what its drawing counts."""
import importlib.util
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from documents import ROOT

FOLDER = os.path.join(ROOT, 'examples', 'moe')


@pytest.fixture(scope='module')
def example():
    sys.path.insert(0, FOLDER)
    try:
        spec = importlib.util.spec_from_file_location('moe_train', os.path.join(FOLDER, 'train.py'))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(FOLDER)


@pytest.mark.parametrize('data', ['mnist', 'cifar10'])
@pytest.mark.parametrize('select', [1, 2, 4])
def test_the_dense_net_multiplies_as_often(example, data, select):
    mixture = example.Mixture(data, select=select)
    dense = mixture.dense()
    wanted = select * mixture.expert_products(mixture.channels)
    assert dense.expert_products(dense.channels) <= wanted < dense.expert_products(dense.channels + 1)
    assert not any(layer.type == 'MOE' for layer in dense.make(1, loss=False).layer)


def test_weights_are_those_of_the_selected_experts(example):
    gate = np.array([[0.1, 0.4, 0.3, 0.2], [0.7, 0.1, 0.15, 0.05]])
    np.testing.assert_allclose(example.selected_weights(gate, 2),
                               [[0, 4 / 7, 3 / 7, 0], [14 / 17, 0, 3 / 17, 0]])


def test_a_mixture_learns_two_kinds_of_images(example, tmp_path):
    """After some iterations the net separates bright images from dark ones."""
    random = np.random.default_rng(3)
    labels = random.integers(2, size=400)
    images = (random.standard_normal((400, 1, 28, 28)) * 0.3
              + (2 * labels - 1)[:, None, None, None]).astype(np.float32)
    sizes = example.Mixture('mnist', experts=4, select=2, channels=4)
    arguments = SimpleNamespace(set='mnist', batch=20, rate=0.002, iterations=40, seed=1)
    net = example.train(sizes, (images[:300], labels[:300]), arguments)
    accuracy, shares, used, _ = example.test(net, sizes, (images[300:], labels[300:]), 100)
    assert accuracy > 95
    # Each image gives weights whose sum is 1 to two experts.
    np.testing.assert_allclose(shares.sum(0)[:2], np.bincount(labels[300:]), rtol=1e-5)
    assert shares[:, 2:].sum() == 0
    assert used.sum() == 2 * 100 and ((used > 0) == (shares.sum(1) > 0)).all()
    path = tmp_path / 'drawing.png'
    example.draw(str(path), shares / np.maximum(shares.sum(0), 1), 'abcdefghij', 'title')
    assert path.read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize('balance', ['loss', 'usage', 'bias', 'none'])
def test_the_options_train(example, balance):
    """The gate learns bright and dark super-classes, with each balance and a limit of items."""
    random = np.random.default_rng(4)
    labels = random.integers(10, size=300)
    images = (0.3 * random.standard_normal((300, 1, 28, 28))).astype(np.float32)
    images += (2 * example.super_classes(labels, 'mnist') - 1)[:, None, None, None]
    sizes = example.Mixture('mnist', experts=4, select=2, channels=2, balance=balance, capacity=1.5,
                            super_classes=True)
    moe = next(layer for layer in sizes.make(20, loss=True).layer if layer.type == 'MOE').moe_param
    assert moe.capacity_factor == 1.5 and list(moe.gate_top) == ['gate', 'super']
    set_fields = [name for name in ('load_balance_loss_weight', 'usage_loss_weight', 'balance_rate')
                  if getattr(moe, name)]
    assert set_fields == {'loss': ['load_balance_loss_weight'], 'usage': ['usage_loss_weight'],
                          'bias': ['balance_rate'], 'none': []}[balance]
    arguments = SimpleNamespace(set='mnist', batch=20, rate=0.002, iterations=30, seed=1)
    net = example.train(sizes, (images[:200], labels[:200]), arguments)
    _, _, used, right_super = example.test(net, sizes, (images[200:], labels[200:]), 100)
    assert used.sum() == 2 * 100 and right_super > 95
