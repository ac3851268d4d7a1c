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
    wanted = mixture.products()
    assert wanted > select * mixture.expert_products(mixture.channels)  # the gate counts
    assert dense.expert_products(dense.channels) <= wanted < dense.expert_products(dense.channels + 1)
    assert not any(layer.type == 'MOE' for layer in dense.make(1, loss=False).layer)


def test_weights_are_those_of_the_selected_experts(example):
    gate = np.array([[0.1, 0.4, 0.3, 0.2], [0.7, 0.1, 0.15, 0.05]])
    np.testing.assert_allclose(example.selected_weights(gate, 2),
                               [[0, 4 / 7, 3 / 7, 0], [14 / 17, 0, 3 / 17, 0]])
    np.testing.assert_allclose(example.selected_weights(gate, 2, np.array([0.25, 0, 0, 0])),
                               [[1 / 5, 4 / 5, 0, 0], [14 / 17, 0, 3 / 17, 0]])


@pytest.mark.parametrize('data', ['mnist', 'cifar10'])
@pytest.mark.parametrize('select', [0, 2])
def test_products_are_those_of_the_net(example, data, select):
    """Multiplications counted from the shapes of the blobs behind the shared convolutions."""
    sizes = example.Mixture(data, 4, 2)
    if select == 0:
        sizes = sizes.dense()
    net = example.caffe.NetSpec()
    inputs = sys.modules[example.Mixture.__module__].SHARED[data][-1]
    net.data = example.caffe.layers.Input(shape=dict(dim=[1, inputs, sizes.side, sizes.side]))
    sizes.add_expert(net, net.data)
    net = example.caffe.Net(net.to_proto(), example.caffe.TEST)
    products = sum(np.prod(net.blobs[name].shape[2:]) * blobs[0].count
                   for name, blobs in net.params.items())
    assert products == sizes.expert_products(sizes.channels)


def test_images_are_moved_and_mirrored(example):
    random = np.random.default_rng(5)
    images = random.standard_normal((200, 2, 6, 5)).astype(np.float32)
    moved = example.moved_and_mirrored(images, np.random.default_rng(6))
    assert moved.shape == images.shape and moved.dtype == np.float32
    padded = np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4)))
    places = set()
    for image, wide in zip(moved, padded):
        places.update((row, column, mirror) for row in range(9) for column in range(9)
                      for mirror in (1, -1)
                      if (wide[:, row:row + 6, column:column + 5][..., ::mirror] == image).all())
    assert {row for row, _, _ in places} == {column for _, column, _ in places} == set(range(9))
    assert {mirror for _, _, mirror in places} == {1, -1}


@pytest.mark.parametrize('balance', ['bias', 'both'])
def test_the_use_is_that_of_the_layer(example, balance):
    """With a bias of the selection, too."""
    random = np.random.default_rng(7)
    images = random.standard_normal((100, 1, 28, 28)).astype(np.float32)
    sizes = example.Mixture('mnist', experts=4, select=2, channels=2, balance=balance)
    net = example.caffe.Net(sizes.make(100, loss=False), example.caffe.TEST)
    net.params['moe'][-1].data[...] = [2, 0, 0, 3]
    _, _, used, _ = example.test(net, sizes, (images, np.zeros(100, np.uint8)), 100)
    np.testing.assert_allclose(used, [100, 0, 0, 100])


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


@pytest.mark.parametrize('balance', ['loss', 'usage', 'bias', 'both', 'none'])
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
                          'bias': ['balance_rate'], 'none': [],
                          'both': ['load_balance_loss_weight', 'balance_rate']}[balance]
    arguments = SimpleNamespace(set='mnist', batch=20, rate=0.002, iterations=30, seed=1)
    net = example.train(sizes, (images[:200], labels[:200]), arguments)
    _, _, used, right_super = example.test(net, sizes, (images[200:], labels[200:]), 100)
    assert used.sum() == 2 * 100 and right_super > 95
