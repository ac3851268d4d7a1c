"""Nets that somebody else wrote: their names on a terminal, their layers in Python, their sizes."""
import sys

import pytest
from google.protobuf import text_format

import caffe
from caffe import draw
from caffe.proto import caffe_pb2

caffe.set_device('cpu')

ODD = '\x1b]0;title\x07\x9b31m'
SAFE = '\\x1b]0;title\\x07\\xc2\\x9b31m'


def odd_net():
    net = caffe_pb2.NetParameter(name='net' + ODD)
    layer = net.layer.add(name='in' + ODD, type='Input', top=['x' + ODD])
    layer.input_param.shape.add(dim=[2, 3])
    net.layer.add(name='ip' + ODD, type='InnerProduct', bottom=['x' + ODD], top=['y' + ODD]
                  ).inner_product_param.num_output = 2
    return net


def test_names_in_texts_cannot_change_a_terminal():
    net = caffe.Net(odd_net())
    for text in (repr(net), repr(net.blobs['x' + ODD]), repr(net.params['ip' + ODD]),
                 repr(net.layers[1]), repr(net.layers[1].layer_param), repr(net.plan[0]),
                 str(net.plan[0])):
        assert SAFE in text and all(c.isprintable() for c in text), repr(text)


def test_pictures_hold_printable_names():
    text = draw.draw_net(odd_net(), 'LR', 'dot').decode()
    assert all(c.isprintable() or c == '\n' for c in text)
    assert SAFE.replace('\\', '\\\\') in text


def python_layer(module):
    return ('layer { name: "p" type: "Python" top: "p" python_param { module: "%s" layer: "L" } }'
            % module)


def nested(inner):
    return ('layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } } '
            'layer { name: "m" type: "MOE" bottom: "x" top: "y" moe_param { expert_net { %s } } }'
            % inner)


@pytest.mark.parametrize('text', [python_layer('foreign_module'),
                                  nested(python_layer('foreign_module'))])
def test_layers_in_python_can_be_refused(tmp_path, monkeypatch, text):
    (tmp_path / 'foreign_module.py').write_text('raise SystemExit("this code ran")')
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / 'net.prototxt').write_text('name: "n" ' + text)
    net = text_format.Parse('name: "n" ' + text, caffe_pb2.NetParameter())
    for source in (str(tmp_path / 'net.prototxt'), net):
        with pytest.raises(RuntimeError) as raised:
            caffe.Net(source, python_layers=False)
        assert str(raised.value) == (
            "net n: layer p (Python) runs code of the module 'foreign_module', and python_layers is "
            'False; set it to True if you trust the net')
    assert 'foreign_module' not in sys.modules


def test_layers_in_python_that_are_left_out_are_not_refused():
    text = python_layer('nowhere').replace('top', 'include { phase: TRAIN } top', 1)
    net = text_format.Parse(nested('').split('layer { name: "m"')[0] + text,
                            caffe_pb2.NetParameter())
    assert list(caffe.Net(net, 'TEST', python_layers=False).blobs) == ['x']
    with pytest.raises(RuntimeError, match='python_layers is False'):
        caffe.Net(net, 'TRAIN', python_layers=False)


def test_missing_memory_is_a_memory_error_that_says_for_what():
    net = caffe_pb2.NetParameter(name='huge')
    net.layer.add(name='in', type='Input', top=['x']).input_param.shape.add(dim=[1 << 20, 1 << 22])
    net.layer.add(name='r', type='ReLU', bottom=['x'], top=['y'])
    with pytest.raises(caffe.OutOfMemory) as raised:
        caffe.Net(net).forward()
    assert isinstance(raised.value, MemoryError) and isinstance(raised.value, RuntimeError)
    assert 'net huge' in str(raised.value) and 'bytes' in str(raised.value)
