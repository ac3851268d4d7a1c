"""Weights that a file stores as half or as codes, in nets that compute in these types."""
import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2

FIELDS = {'half': 'CAFFE_HALF', 'bfloat16': 'CAFFE_BFLOAT16', 'int8': 'CAFFE_INT8_QUANTIZED',
          'int16': 'CAFFE_INT16_QUANTIZED'}
NET = '''
data_type: %s
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 400 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param {
  num_output: 300 weight_filler { type: "gaussian" std: 0.05 } } }
'''


def make_net(tmp_path, field):
    path = tmp_path / (field + '.prototxt')
    path.write_text(NET % field)
    return caffe.Net(str(path), caffe.TEST)


def stored(path):
    file = caffe_pb2.NetParameter()
    file.ParseFromString(path.read_bytes())
    file.DiscardUnknownFields()  # padding
    (layer,) = [layer for layer in file.layer if layer.name == 'ip']
    return layer.blobs[0], [entry.SerializeToString() for entry in file.quantizer
                            if entry.name == 'ip_blobs_0_quant']


@pytest.fixture(params=FIELDS)
def files(request, tmp_path):
    """Type, the file in this type, and the float weights and images."""
    caffe.set_device('cpu')
    net = make_net(tmp_path, 'CAFFE_FLOAT')
    net.quant_mode = 'observe'
    images = np.random.RandomState(3).uniform(-1, 1, (2, 400)).astype(np.float32)
    net.blobs['data'].data[...] = images
    net.forward()
    net.save(str(tmp_path / 'float.caffemodel'))
    narrow = 'quantize_weights' if request.param.startswith('int') else 'round'
    caffe.transform((str(tmp_path / 'CAFFE_FLOAT.prototxt'), str(tmp_path / 'float.caffemodel')),
                    narrow, type=request.param, out=str(tmp_path / 'narrow'))
    return request.param, tmp_path / 'narrow.caffemodel', net.params['ip'][0].data.copy(), images


@pytest.mark.parametrize('mapped', [False, True])
def test_saving_writes_what_was_loaded(files, tmp_path, mapped):
    name, path, weights, images = files
    net = make_net(tmp_path, FIELDS[name])
    net.copy_from(str(path), map_weights=mapped)
    net.blobs['data'].data[...] = images
    output = net.forward()['ip'].copy()
    size = weights.size * (1 if name == 'int8' else 2)
    assert (net.memory['weights'] >= size) != mapped
    blob, scales = stored(path)
    net.save(str(tmp_path / 'again'))
    assert stored(tmp_path / 'again') == (blob, scales)
    assert len(scales) == name.startswith('int')
    # Reading computes floats, and changes neither the result nor the file.
    error = {'half': 2 ** -11, 'bfloat16': 2 ** -8}.get(name, 0) * np.abs(weights)
    if name.startswith('int'):
        error = np.abs(weights).max(axis=1, keepdims=True) / {'int8': 254, 'int16': 65534}[name]
    data = net.params['ip'][0].data
    assert np.all(np.abs(data - weights) <= error * 1.02 + 2 ** -25)
    assert np.array_equal(net.forward()['ip'], output)
    net.save(str(tmp_path / 'read'))
    assert stored(tmp_path / 'read') == (blob, scales)
    # Writing does.
    data[0, 0] += 2
    assert not np.array_equal(net.forward()['ip'], output)
    net.save(str(tmp_path / 'written'))
    assert np.array_equal(stored(tmp_path / 'written')[0].data, data.ravel())


def test_share_with_needs_no_floats(files, tmp_path):
    name, path, _, images = files
    owner, other = make_net(tmp_path, FIELDS[name]), make_net(tmp_path, FIELDS[name])
    owner.copy_from(str(path))
    ranges = caffe_pb2.NetParameter()
    ranges.ParseFromString(path.read_bytes())
    del ranges.layer[:]
    (tmp_path / 'ranges').write_bytes(ranges.SerializeToString())
    other.copy_from(str(tmp_path / 'ranges'))
    other.share_with(owner)
    outputs = []
    for net in (owner, other):
        net.blobs['data'].data[...] = images
        outputs.append(net.forward()['ip'].copy())
    assert np.array_equal(*outputs)
    owner.params['ip'][0].data[1, 1] += 2
    assert not np.array_equal(other.forward()['ip'], outputs[1])
