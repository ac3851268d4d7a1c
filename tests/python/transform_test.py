"""caffe.transform rewrites a trained model and says how far its outputs differ."""
import numpy as np
import pytest
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2

TEXT = """
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
            convolution_param { num_output: 4 kernel_size: 3 bias_term: false
                                weight_filler { type: "xavier" } } }
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "drop" type: "Dropout" bottom: "conv" top: "conv" }
"""


@pytest.fixture
def net():
    caffe.set_device('cpu')
    net = caffe.Net(text_format.Parse(TEXT, caffe_pb2.NetParameter()), caffe.TEST)
    net.params['bn'][0].data[...] = [0.1, -0.2, 0.3, 0.4]
    net.params['bn'][1].data[...] = [0.5, 1, 1.5, 2]
    net.params['bn'][2].data[...] = 1
    return net


def test_a_net_becomes_a_message_that_computes_the_same(net):
    model, report = caffe.transform(net)
    assert [layer.name for layer in model.layer] == ['data', 'conv']
    assert [one['name'] for one in report['passes']] == ['strip', 'fold', 'constants', 'casts']
    assert report['passes'][1]['notes'] == ['bn is folded into conv (Convolution)']
    x = np.random.default_rng(1).uniform(-1, 1, (2, 3, 4, 4))
    expected = net.forward(data=x)['conv'].copy()
    result = caffe.Net(model, caffe.TEST)
    # A message has no weights for a net; they are copied from the file that save would write.
    assert [len(layer.blobs) for layer in model.layer] == [0, 2]
    for values, blob in zip(result.params['conv'], model.layer[1].blobs):
        values.data[...] = np.reshape(blob.data, values.data.shape)
    assert np.abs(result.forward(data=x)['conv'] - expected).max() < 1e-6


def test_files_and_given_inputs(net, tmp_path):
    (tmp_path / 'net.prototxt').write_text(TEXT)
    net.save(str(tmp_path / 'net.caffemodel'))
    out = tmp_path / 'small'
    inputs = {'data': np.ones((2, 3, 4, 4))}
    model, report = caffe.transform(
        (tmp_path / 'net.prototxt', tmp_path / 'net.caffemodel'), passes=['all', 'round'],
        type='bfloat16', out=out, inputs=inputs)
    assert model is None
    output, = report['outputs']
    expected = net.forward(**inputs)['conv'].copy()
    assert output['blob'] == 'conv' and output['items'] == 2
    assert output['largest'] == pytest.approx(np.abs(expected).max())
    small = caffe.Net(str(out) + '.prototxt', caffe.TEST, weights=str(out) + '.caffemodel')
    difference = np.abs(small.forward(**inputs)['conv'] - expected).max()
    assert difference == pytest.approx(output['largest_difference']) and 0 < difference < 0.01


def test_errors(net, tmp_path):
    with pytest.raises(RuntimeError, match='unknown pass .fuld.; did you mean fold'):
        caffe.transform(net, passes='fuld')
    with pytest.raises(TypeError, match='caffe.Net or .model, weights.'):
        caffe.transform('net.prototxt')
    for array, error in (([1], 'does not fit blob data'),
                         (np.ones((2, 4, 4, 3)), r'give data.transpose\(0, 3, 1, 2\)'),
                         (np.ones((3, 4, 4)), r'give data\[numpy.newaxis\]')):
        with pytest.raises(RuntimeError, match='data: shape .*' + error):
            caffe.transform(net, inputs={'data': array})
    with pytest.raises(RuntimeError, match='cannot write'):
        caffe.transform(net, out=tmp_path / 'none' / 'x')
