"""Names of nets from elsewhere, in all that Python prints."""
import pytest

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


def test_names_in_errors_of_python_cannot_change_a_terminal():
    net = caffe.Net(odd_net())
    for call in (lambda: net.forward(nothing=1), lambda: net.blobs['x'],
                 lambda: setattr(net.blobs['x' + ODD], 'data', 1),
                 lambda: net.forward(start='ip'), lambda: net.params['ip' + ODD][7],
                 lambda: net.blobs['x' + ODD].reshape(1 << 40, 1 << 40)):
        with pytest.raises(Exception) as raised:
            call()
        assert all(c.isprintable() or c == '\n' for c in str(raised.value)), str(raised.value)


def test_names_that_a_str_cannot_hold_are_named(tmp_path):
    text = ('name: "n" layer { name: "in" type: "Input" top: "x\\377" '
            'input_param { shape { dim: 2 } } }')
    (tmp_path / 'net.prototxt').write_text(text)
    (tmp_path / 'solver.prototxt').write_text(
        'net: "%s" base_lr: 1 lr_policy: "fixed" max_iter: 1' % (tmp_path / 'net.prototxt'))
    for make in (lambda: caffe.Net(str(tmp_path / 'net.prototxt')),
                 lambda: caffe.get_solver(str(tmp_path / 'solver.prototxt'))):
        with pytest.raises(RuntimeError) as raised:
            make()
        assert str(raised.value).endswith(
            'the name of a blob, x\\xff, is not UTF-8, which Python cannot hold; rename it')


def test_pictures_hold_printable_names():
    text = draw.draw_net(odd_net(), 'LR', 'dot').decode()
    assert all(c.isprintable() or c == '\n' for c in text)
    assert SAFE.replace('\\', '\\\\') in text
