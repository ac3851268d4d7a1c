"""Errors for wrong inputs, names, files and arguments: they name blob, values and cure."""
import os
import pickle
import re

import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2
from nets import settings, small_net, write


@pytest.fixture(autouse=True)
def cpu():
    caffe.set_device('cpu')


def net_of(*shape):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=shape))
    spec.out = L.Power(spec.data, scale=2)
    return caffe.Net(spec.to_proto(), caffe.TEST)


def told(error, call, *arguments, **keywords):
    with pytest.raises(error) as raised:
        call(*arguments, **keywords)
    return str(raised.value)


def test_an_input_without_a_name():
    net = net_of(1, 3, 6, 6)
    for given in (np.zeros((1, 3, 6, 6)), {'data': 1}, 3, [np.zeros(3)]):
        for call in (net.forward, net.forward_all):
            assert 'net.forward(data=x)' in told(TypeError, call, given)
    assert 'an array of shape (1, 3, 6, 6)' in told(TypeError, net.forward, np.zeros((1, 3, 6, 6)))
    assert list(net.forward('data')) == ['out', 'data']


def test_another_size_names_blob_shapes_and_reshape():
    net = net_of(1, 3, 7, 7)
    said = told(ValueError, net.forward, data=np.zeros((1, 3, 5, 5)))
    assert said == ('data: shape (1, 3, 5, 5) does not fit blob data, whose shape is (1, 3, 7, 7); '
                    "for inputs of this size call net.blobs['data'].reshape(1, 3, 5, 5) first")
    eval(re.search(r'call (.*) first', said).group(1))
    assert net.forward(data=np.ones((1, 3, 5, 5)))['out'].shape == (1, 3, 5, 5)


def test_another_batch_names_forward_all_and_reshape():
    net = net_of(1, 3, 7, 7)
    said = told(ValueError, net.forward, data=np.zeros((2, 3, 7, 7)))
    assert said == ('data: shape (2, 3, 7, 7) is not one batch of 1; net.forward_all(data=…) takes '
                    "any number of items, or call net.blobs['data'].reshape(2, 3, 7, 7) first")
    assert net.forward_all(data=np.zeros((2, 3, 7, 7)))['out'].shape == (2, 3, 7, 7)


@pytest.mark.parametrize('batch', [1, 5])
def test_an_image_of_height_width_channels(batch):
    net = net_of(batch, 3, 7, 6)
    for shape in ((7, 6, 3), (batch, 7, 6, 3)):
        data = np.zeros(shape)
        said = told(ValueError, net.forward, data=data)
        assert 'looks like height x width x channels: give data.transpose(' in said
        cure = eval(re.search(r'give (data\.transpose\(.*?\)\)?(\[numpy\.newaxis\])?)',
                              said).group(1).replace('numpy', 'np'))
        net.forward_all(data=cure)


def test_an_image_without_a_batch():
    for batch in (1, 3, 4):  # with 3, NumPy would repeat the image
        net = net_of(batch, 3, 7, 6)
        said = told(ValueError, net.forward, data=np.zeros((3, 7, 6)))
        assert '; one item has no axis for the batch: ' in said
        assert net.forward_all(data=np.zeros((3, 7, 6))[np.newaxis])['out'].shape == (1, 3, 7, 6)


def test_as_many_elements_in_another_shape():
    net = net_of(4, 1, 1, 1)
    said = told(ValueError, net.forward, data=np.arange(4))
    assert said.endswith('it has as many elements: give data.reshape(4, 1, 1, 1)')
    assert net.forward(data=np.arange(4).reshape(4, 1, 1, 1))['out'].ravel().tolist() == [0, 2, 4, 6]


def test_nothing_is_written_where_one_input_is_wrong():
    spec = NetSpec()
    spec.a = L.Input(shape=dict(dim=[2, 3]))
    spec.b = L.Input(shape=dict(dim=[2, 3]))
    spec.out = L.Eltwise(spec.a, spec.b)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    net.forward(a=np.ones((2, 3)), b=np.ones((2, 3)))
    told(ValueError, net.forward, a=np.zeros((2, 3)), b=np.zeros((2, 4)))
    assert net.forward()['out'].tolist() == [[2] * 3] * 2


def test_inputs_that_are_missing_or_misspelt():
    net = caffe.Net(small_net(), caffe.TEST)
    data, label = np.zeros((5, 2, 3, 4)), np.zeros((5, 1, 1, 1))
    assert told(ValueError, net.forward, data=data) == (
        "the net's inputs are data, label; without a value: label")
    assert told(ValueError, net.forward, dta=data) == (
        "the net's inputs are data, label; dta is not one of them; did you mean data?")
    assert told(ValueError, net.forward, data=data, lable=label) == (
        "the net's inputs are data, label; lable is not one of them; did you mean label?"
        "; without a value: label")
    assert 'the diffs to begin with are loss; los is not one of them; did you mean loss?' == told(
        ValueError, net.backward, los=1)


def test_an_image_without_channels(tmp_path):
    net = net_of(2, 1, 6, 6)
    net.save(str(tmp_path / 'w'))
    spec = NetSpec()
    spec.data = L.Input(shape=[2, 1, 6, 6])
    spec.out = L.Power(spec.data)
    model = write(tmp_path, spec.to_proto())
    classifier = caffe.Classifier(model, str(tmp_path / 'w'))
    image = np.zeros((6, 6))
    assert told(ValueError, classifier.predict, [image]) == (
        'an image is height x width x channels, but one has the shape (6, 6); '
        'give image[:, :, numpy.newaxis]')
    assert told(ValueError, classifier.predict, image[:, :, np.newaxis]).endswith(
        '; give a list of images: [image]')
    assert classifier.predict([image[:, :, np.newaxis]]).shape == (1, 36)


def test_a_net_without_a_name_has_one_blank():
    net = net_of(2, 3)
    net.forward()
    assert "the net has no blob 'foo'" in told(RuntimeError, net.backward, diffs=['foo'])
    assert 'data has 0 blobs; there is no blob 0' == told(
        IndexError, lambda: net.layers[0].blobs[0])


def test_diffs_of_a_wrong_shape():
    net = net_of(2, 3)
    net.forward()
    assert 'out: shape (2, 4) does not fit blob out, whose shape is (2, 3)' in told(
        ValueError, net.backward, out=np.zeros((2, 4)))


def test_unknown_names_are_key_errors_that_name_the_nearest():
    net = caffe.Net(small_net(), caffe.TEST)
    for use, key, near in ((net.blobs, 'dat', 'data'), (net.params, 'Conv', 'conv'),
                           (net.layer_dict, 'losss', 'loss'), (net.top_names, 'convv', 'conv'),
                           (net.bottom_names, 'convv', 'conv'),
                           (net.blob_loss_weights, 'losss', 'loss')):
        with pytest.raises(KeyError) as error:
            use[key]
        assert error.value.args == (key,)
        assert "no " in str(error.value) and 'did you mean %s?' % near in str(error.value)
        assert pickle.loads(pickle.dumps(error.value)).args == (key,)
        assert key not in use and use.get(key) is None and use.get(key, 3) == 3
        assert isinstance(use, dict) and isinstance(use.copy(), dict) and near in use.copy()
    said = told(KeyError, lambda: net.blobs['fc7'])
    assert said == "there is no blob 'fc7'. There are data, label, conv, ip, loss"
    assert told(KeyError, net.forward, blobs=['fc7']) == said
    assert 'no layer convv; did you mean conv?' in told(ValueError, net.forward, end='convv')


def changes_of(use, key, value):
    return [lambda: use.__setitem__(key, value), lambda: use.update({key: value}),
            lambda: use.update(**{key: value}), lambda: use.setdefault(key, value),
            lambda: use.pop(key), lambda: use.popitem(), lambda: use.__delitem__(key),
            lambda: use.clear(), lambda: use.move_to_end(key),
            lambda: use.__ior__({key: value}), lambda: use.__setitem__('new', value)]


def test_dicts_of_a_net_refuse_changes_and_say_what_to_write():
    net = caffe.Net(small_net(), caffe.TEST)
    for use in ('blobs', 'params', 'layer_dict', 'top_names', 'bottom_names',
                'blob_loss_weights', 'quantizers'):
        items = list(getattr(net, use).items())
        for change in changes_of(getattr(net, use), 'conv', np.zeros(3)):
            assert 'net.%s describes the net and cannot be changed' % use in told(TypeError, change)
        assert [key for key, _ in items] == list(getattr(net, use))

    x = np.full((5, 2, 3, 4), 2)
    cure = told(TypeError, net.blobs.__setitem__, 'data', x).split('write ')[1]
    assert cure == "net.blobs['data'].data[...] = x"
    exec(cure)
    assert (net.blobs['data'].data == 2).all()
    x = np.full((11, 2, 2, 2), 3)
    exec(told(TypeError, net.params.__setitem__, 'conv', [x]).split('write ')[1])
    assert (net.params['conv'][0].data == 3).all()
    said = told(TypeError, net.params['conv'].__setitem__, 1, np.zeros(11))
    assert said.endswith('write net.params[layer][1].data[...] = x')
    exec(told(TypeError, net.quantizers.__setitem__, 'conv', 1).split('write ')[1])
    assert net.quantizers['conv'].mode == caffe.quantizer_mode.CAFFE_QUANT_PSEUDO


def test_data_of_a_blob_cannot_be_replaced():
    blob = caffe.Net(small_net(), caffe.TEST).blobs['data']
    for name in ('data', 'diff'):
        said = told(AttributeError, setattr, blob, name, np.zeros((5, 2, 3, 4)))
        assert said == ('blob data: %s is a view and cannot be replaced; write blob.%s[...] = x, and '
                        'blob.%s[...] += x' % (name, name, name))
    blob.float_data = np.ones((5, 2, 3, 4))
    assert (blob.data == 1).all()


def test_a_copy_of_a_dict_of_a_net_can_be_changed():
    net = caffe.Net(small_net(), caffe.TEST)
    for copied in (net.top_names.copy(), net.top_names | {}, {} | net.top_names,
                   pickle.loads(pickle.dumps(net.top_names))):
        assert copied == net.top_names
        copied['more'] = ['x']
        copied |= {'most': ['y']}
        assert 'did you mean more?' in told(KeyError, lambda: copied['moer'])
    assert 'more' not in net.top_names
    assert "did you mean conv?" in told(KeyError, lambda: net.quantizers['cnv'])


def test_a_net_of_a_file_alone(tmp_path):
    path = write(tmp_path, small_net())
    nets = [caffe.Net(path), caffe.Net(tmp_path / 'net.prototxt'), caffe.Net(small_net()),
            caffe.Net(path, 'TEST'), caffe.Net(path, 'test'), caffe.Net(network_file=path)]
    assert [net._phase for net in nets] == [caffe.TEST] * 6
    assert [caffe.Net(path, phase)._phase for phase in ('TRAIN', caffe.TRAIN, np.int64(0))] == [
        caffe.TRAIN] * 3
    nets[0].save(str(tmp_path / 'w'))
    for make in (lambda: caffe.Net(path, str(tmp_path / 'w')),
                 lambda: caffe.Net(path, tmp_path / 'w'), lambda: caffe.Net(path, [1])):
        assert "caffe.Net(file, caffe.TEST, weights='x.caffemodel')" in told(TypeError, make)
    for phase in (2, 77):
        assert 'phase %d is neither' % phase in told(ValueError, caffe.Net, path, phase)
    with pytest.warns(DeprecationWarning, match='weights=weights') as warned:
        caffe.Net(network_file=path, weights_file=str(tmp_path / 'w'), phase=caffe.TEST)
    assert warned[0].filename == __file__


def test_the_text_of_a_prototxt_is_no_file_name(tmp_path):
    from google.protobuf import text_format
    for text in (str(small_net()), 'layer { name: "x" type: "Input" top: "x" }'):
        said = told(ValueError, caffe.Net, text, caffe.TEST)
        assert 'is the text of a prototxt, not the name of a file' in said and len(said) < 300
        assert 'text_format.Parse(text, caffe_pb2.NetParameter())' in said
        caffe.Net(text_format.Parse(text, caffe_pb2.NetParameter()), caffe.TEST)
    odd = tmp_path / 'net{1}.prototxt'
    os.rename(write(tmp_path, small_net()), odd)
    caffe.Net(str(odd))
    assert 'FromString' in told(TypeError, caffe.Net, small_net().SerializeToString())
    assert 'the net is 3 (int), not a file name' in told(TypeError, caffe.Net, 3)


def test_calls_with_wrong_arguments_are_one_line(tmp_path):
    net = caffe.Net(small_net())
    solver = caffe.get_solver(settings(tmp_path))
    config = caffe.SolverParameter()
    calls = [
        (lambda: net.save(), 'Net.save takes (path, write_diff: bool = False), not ()'),
        (lambda: net.save('x', 1, 2, 3), 'Net.save takes (path, write_diff: bool = False), not ('),
        (lambda: net.share_with(3), 'Net.share_with takes (other: Net), not (3 (int))'),
        (lambda: net.before_forward(3), 'Net.before_forward takes (function: '),
        (lambda: net.reshape(3), 'Net.reshape takes (), not (3 (int))'),
        (lambda: net.exclusive(a=1), 'Net.exclusive takes (), not (a=1 (int))'),
        (lambda: solver.add_callback(1), 'Solver.add_callback takes (on_start: '),
        (lambda: solver.step(), 'Solver.step takes (iterations, progress = None), not ()'),
        (lambda: solver.share_weights('x'),
         "Solver.share_weights takes (net: Net), not ('x' (str))"),
        (lambda: setattr(solver, 'lr', 'x'), "Solver.lr takes float, not 'x' (str)"),
        (lambda: setattr(config, 'base_lr', 'x'),
         "SolverParameter.base_lr takes float, not 'x' (str)"),
        (lambda: setattr(config, 'max_iter', 1.5), 'SolverParameter.max_iter takes int, not 1.5 '),
        (lambda: setattr(config, 'type', 3), 'SolverParameter.type takes str, not 3 (int)'),
        (lambda: setattr(config, 'snapshot_format', 'x'),
         "SolverParameter.snapshot_format takes snapshot_format, not 'x' (str)"),
        (lambda: caffe.set_random_seed('x'),
         "caffe.set_random_seed takes (seed: int), not ('x' (str))"),
        (lambda: caffe.log(3), 'caffe.log takes (text: str), not (3 (int))'),
        (lambda: caffe.init_log('x'), 'caffe.init_log takes (level: int = 0, '),
        (lambda: caffe.set_devices(3), 'caffe.set_devices takes (devices: '),
        (lambda: caffe.SGDSolver(), 'SGDSolver takes (solver, python_layers: bool = True), not ()'),
        (lambda: caffe.Timer(3), 'Timer takes (), not (3 (int))'),
        (lambda: caffe.Layer(), 'Layer takes (LayerParameter), not ()'),
    ]
    for call, expected in calls:
        said = told(TypeError, call)
        assert said.startswith(expected) and '\n' not in said and 'pybind' not in said, said
    assert "missing 1 required positional argument: 'network_file'" in told(TypeError, caffe.Net)


def test_quant_mode_by_name_number_and_enum():
    net = caffe.Net(small_net())
    mode = caffe.quantizer_mode
    for value in ('observe', 'OBSERVE', 'CAFFE_QUANT_OBSERVE', 1, True, np.int64(1),
                  mode.CAFFE_QUANT_OBSERVE):
        net.quant_mode = 'passive'
        assert net.quant_mode == mode.CAFFE_QUANT_PASSIVE
        net.quant_mode = value
        assert net.quant_mode == mode.CAFFE_QUANT_OBSERVE == 1
    for value in (0, False, mode.CAFFE_QUANT_PASSIVE):
        net.quant_mode = value
        assert net.quant_mode == 0
    for value in ('watch', 7, None, 3, 1.5):
        said = told(ValueError, setattr, net, 'quant_mode', value)
        assert repr(value) in said and "'passive' (CAFFE_QUANT_PASSIVE, 0)" in said


def test_a_forward_of_layers_by_index_gives_the_loss():
    net = caffe.Net(small_net())
    net.blobs['data'].data[...] = 1
    loss = net._forward(0, len(net.layers) - 1)
    assert loss == pytest.approx(float(net.blobs['loss'].data), rel=1e-6)


def test_addresses_of_blobs():
    import ctypes
    net = net_of(2, 3)
    net.blobs['data'].data[...] = [[1, 2, 3], [4, 5, 6]]
    net.blobs['data'].diff[...] = 7
    for address, expected in ((net.blobs['data']._gpu_data_ptr, [1, 2, 3, 4, 5, 6]),
                              (net.blobs['data']._gpu_diff_ptr, [7] * 6)):
        assert list((ctypes.c_float * 6).from_address(address)) == expected
    for device in caffe.devices():
        if device.name.startswith('opencl'):
            caffe.set_device(device.name)
            net = net_of(2, 3)
            net.forward()
            with pytest.raises(RuntimeError, match='blob out: memory of an OpenCL device'):
                net.blobs['out']._gpu_data_ptr
