import os
import re
import subprocess
import sys

import pytest

import caffe
import caffe.draw
from caffe import layers as L, params as P
from nets import small_net, write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, 'python', 'draw_net.py')
MODELS = sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(ROOT, 'models'))
                for name in names if name.endswith('.prototxt') and 'solver' not in name)


def net():
    spec = caffe.NetSpec()
    spec.data = L.Input(shape=dict(dim=[1, 3, 8, 8]), include=dict(phase=caffe.TEST))
    spec.conv1 = L.Convolution(spec.data, num_output=20, kernel_size=5, stride=2,
                               param=[dict(lr_mult=1), dict(lr_mult=2)])
    spec.relu1 = L.ReLU(spec.conv1, in_place=True)
    spec.pool1 = L.Pooling(spec.relu1, pool=P.Pooling.AVE, kernel_h=3, kernel_w=2, stride=2, pad=1)
    spec['a "b" {c}'] = L.InnerProduct(spec.pool1, num_output=10, exclude=dict(phase=caffe.TRAIN))
    proto = spec.to_proto()
    proto.name = 'small'
    return proto


def test_the_text_names_layers_blobs_and_edges():
    text = caffe.draw.net_to_dot(net(), 'LR', display_lrm=True)
    assert text.startswith('digraph "small" {\n  rankdir=LR;') and text.endswith('}\n')
    assert r'conv1\n(Convolution)\nkernel size: 5\nstride: 2\npad: 0\nlr mult: 1, 2"' in text
    assert r'pool1\n(AVE Pooling)\nkernel size: 3x2\nstride: 2\npad: 1"' in text
    assert '"layer conv1 Convolution" -> "conv1" [label="20"];' in text
    assert '"conv1" -> "layer relu1 ReLU";' in text and '"layer relu1 ReLU" -> "conv1";' in text
    assert r'"a \"b\" {c}" [' in text  # quotes are escaped, and braces in records
    assert r'a \"b\" \{c\}\n(InnerProduct)' in text
    declared = set(re.findall(r'^  ("(?:[^"\\]|\\.)*") \[', text, re.M))
    used = set(re.findall(r'^  ("(?:[^"\\]|\\.)*") ->', text, re.M))
    assert used <= declared and len(declared) == 5 + 4
    wide = caffe.draw.net_to_dot(net(), 'TB', label_edges=False)
    assert 'conv1 (Convolution) kernel size: 5' in wide and 'label="20"' not in wide
    assert 'lr mult' not in wide


def test_only_the_layers_of_a_phase():
    train = caffe.draw.net_to_dot(net(), phase=caffe.TRAIN)
    assert '(Input)' not in train and '(InnerProduct)' not in train and '(ReLU)' in train
    test = caffe.draw.net_to_dot(net(), phase=caffe.TEST)
    assert '(Input)' in test and '(InnerProduct)' in test


def test_the_small_functions():
    conv, _, pool, product = net().layer[1:]
    assert caffe.draw.get_pooling_types_dict()[P.Pooling.MAX] == 'MAX'
    assert caffe.draw.get_edge_label(conv) == '20' and caffe.draw.get_edge_label(product) == '10'
    assert caffe.draw.get_edge_label(pool) == ''
    assert caffe.draw.get_layer_lr_mult(conv) == [1, 2] and caffe.draw.get_layer_lr_mult(pool) == []
    colours = {caffe.draw.choose_color_by_layertype(kind)
               for kind in ('Convolution', 'Pooling', 'InnerProduct', 'Slice')}
    assert len(colours) == 4


@pytest.mark.parametrize('kind', ['DepthwiseConvolution', 'ConvolutionDepthwise'])
def test_a_depthwise_convolution_is_drawn_as_a_convolution(kind):
    spec = caffe.NetSpec()
    spec.data = L.Input(shape=dict(dim=[1, 3, 8, 8]))
    spec.dw = getattr(L, kind)(spec.data, kernel_size=3, pad=1, param=[dict(lr_mult=2)])
    layer = spec.to_proto().layer[1]
    assert caffe.draw.get_layer_label(layer, 'TB', True) == (
        'dw (%s) kernel size: 3 stride: 1 pad: 1 lr mult: 2' % kind)
    assert caffe.draw.get_edge_label(layer) == ''
    assert (caffe.draw.choose_color_by_layertype(kind)
            == caffe.draw.choose_color_by_layertype('Convolution'))


@pytest.mark.parametrize('path', MODELS, ids=[os.path.basename(path) for path in MODELS])
def test_every_model_is_drawn(path, tmp_path):
    picture = tmp_path / 'net.dot'
    caffe.draw.draw_net_to_file(caffe.io.read_net(path), picture)
    assert picture.read_text().count('->') > 10


def draw(*arguments, **more):
    return subprocess.run([sys.executable, SCRIPT, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)


def test_the_command_draws(tmp_path):
    model = write(tmp_path, small_net())
    picture = tmp_path / 'small.gv'
    run = draw(model, str(picture), '--rankdir', 'TB', '--phase', 'TRAIN', '--display_lrm')
    assert run.returncode == 0, run.stdout
    assert 'rankdir=TB' in picture.read_text() and '(Convolution)' in picture.read_text()


def test_the_command_draws_nets_of_the_first_form(tmp_path):
    (tmp_path / 'old.prototxt').write_text(
        'input: "data" input_dim: [1, 3, 8, 8]\n'
        'layers { name: "ip" type: INNER_PRODUCT bottom: "data" top: "ip"'
        ' inner_product_param { num_output: 2 } }')
    run = draw(str(tmp_path / 'old.prototxt'), str(tmp_path / 'old.dot'))
    assert run.returncode == 0, run.stdout
    assert '(InnerProduct)' in (tmp_path / 'old.dot').read_text()


def test_what_is_missing_is_said(tmp_path):
    model = write(tmp_path, small_net())
    bare = dict(os.environ, PATH='')
    run = draw(model, str(tmp_path / 'net.png'), env=bare)
    assert run.returncode == 1 and 'graphviz' in run.stdout and 'Traceback' not in run.stdout
    assert not (tmp_path / 'net.png').exists()
    run = draw(str(tmp_path / 'nowhere.prototxt'), 'net.dot')
    assert run.returncode == 1 and 'nowhere.prototxt' in run.stdout and 'Traceback' not in run.stdout
    run = draw(model, str(tmp_path / 'net'))
    assert run.returncode == 1 and 'format' in run.stdout


def test_a_picture_comes_from_dot(tmp_path, monkeypatch):
    command = tmp_path / 'dot'  # stands in for graphviz
    command.write_text('#!/bin/sh\necho "$@"\n/bin/cat\n')
    command.chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path))
    picture = caffe.draw.draw_net(net(), 'LR', 'svg').decode()
    assert picture.startswith('-Tsvg\ndigraph')
    command.write_text('#!/bin/sh\necho no such format >&2\nexit 3\n')
    with pytest.raises(RuntimeError, match='dot -Tx: no such format'):
        caffe.draw.draw_net(net(), 'LR', 'x')
