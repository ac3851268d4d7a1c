"""The repr() of objects, and that all of them have docstrings."""
import inspect

import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2
from nets import settings, small_net


@pytest.fixture(autouse=True)
def cpu():
    caffe.set_device('cpu')


class Same(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data


def test_nets_and_solvers(tmp_path):
    net = caffe.Net(small_net(), caffe.TRAIN)
    assert repr(net) == ('<caffe.Net small: data (5, 2, 3, 4), label (5, 1, 1, 1) -> loss (), '
                         '5 layers, float, phase TRAIN, on cpu>')
    assert repr(caffe.get_solver(settings(tmp_path, type='Adam'))) == (
        '<caffe.AdamSolver of net small: iteration 0 of 20, lr 0.01, float on cpu>')
    assert repr(caffe.Net.__new__(caffe.Net)) == '<caffe.Net that was not made>'
    assert repr(caffe.SGDSolver.__new__(caffe.SGDSolver)) == '<caffe.SGDSolver that was not made>'


def test_blobs_layers_and_devices():
    net = caffe.Net(small_net())
    assert repr(net.blobs['data']) == '<caffe.Blob data: (5, 2, 3, 4) float on cpu>'
    assert repr(net.layer_dict['conv']) == (
        '<caffe.Layer conv: Convolution, float on cpu, parameters (11, 2, 2, 2), (11,)>')
    assert repr(net.params['ip']) == ('[<caffe.Blob ip.0: (13, 792) float on cpu>, '
                                      '<caffe.Blob ip.1: (13,) float on cpu>]')
    assert repr(net.layer_dict['conv'].layer_param) == (
        '<caffe.LayerParameter conv: Convolution, data -> conv>')
    cpu = caffe.device()
    assert repr(cpu) == '<caffe.Device cpu: number -1, %s>' % cpu.description
    spec = NetSpec()
    spec.x = L.Input(shape=dict(dim=[2]))
    spec.y = L.Python(spec.x, module=__name__, layer='Same')
    proto = spec.to_proto()
    proto.data_type = caffe_pb2.CAFFE_BFLOAT16
    net = caffe.Net(proto)
    assert repr(net.layers[1]) == '<Same y: Python, bfloat16 on cpu>'
    assert 'bfloat16' in repr(net.blobs['y']) and 'bfloat16' in repr(net)


def test_codes_show_their_range(tmp_path):
    def make(data_type):
        spec = NetSpec()
        spec.x = L.Input(shape=dict(dim=[2]), data_type=data_type)
        spec.y = L.ReLU(spec.x, data_type=data_type)
        return caffe.Net(spec.to_proto())

    net = make('float')
    net.quant_mode = 'observe'
    net.forward(x=np.array([0, 255]))
    net.save(str(tmp_path / 'w'))
    net = make('quant8')
    assert repr(net.blobs['x']) == '<caffe.Blob x: (2,) quant8 on cpu>'
    net.copy_from(str(tmp_path / 'w'))
    assert repr(net.blobs['x']) == '<caffe.Blob x: (2,) quant8 on cpu, 0 to 255>'


def test_devices_are_listed_by_number():
    devices = caffe.devices()
    assert devices[-1].name == 'cpu' and devices[-1].number == -1 and not devices[-1].is_gpu
    assert len({device.name for device in devices}) == len(devices)
    assert len(devices) == caffe.enumerate_devices(True) + 1
    for number, device in enumerate(devices[:-1]):
        assert device.number == number
    for device in devices:
        caffe.set_device(device.number)
        assert caffe.device().name == device.name


CLASSES = ['Net', 'Blob', 'Layer', 'LayerParameter', 'BlobVec', 'Step', 'Solver', 'SGDSolver',
           'AdamSolver', 'Device', 'Timer', 'NetSpec', 'Classifier', 'Detector', 'NCCL']


def without_text():
    """Public names that have no docstring."""
    missing = []
    for name, member in vars(caffe).items():
        if name.startswith('_') or inspect.ismodule(member) or isinstance(member, int):
            continue
        if not inspect.getdoc(member):
            missing.append(name)
    for name in CLASSES:
        cls = getattr(caffe, name)
        for attribute in dir(cls):
            member = inspect.getattr_static(cls, attribute)
            if attribute.startswith('_') or member.__class__.__name__ == 'getset_descriptor':
                continue
            text = inspect.getdoc(getattr(cls, attribute)) or ''
            if not isinstance(member, property) and text.startswith(attribute + '('):
                text = text.partition('\n')[2]  # the signature alone does not explain anything
            if not text.strip():
                missing.append(name + '.' + attribute)
    return missing


def test_every_public_name_has_a_docstring():
    assert without_text() == []
    names = [name for name in CLASSES for _ in dir(getattr(caffe, name))]
    assert len(names) > 200  # the test looked at something


def test_compiled_functions_have_signatures():
    def parameters(function):
        return str(inspect.signature(function))

    assert parameters(caffe.SGDSolver.step) == '(self, iterations, progress=None)'
    assert parameters(caffe.Net.save) == '(self, path, write_diff=False)'
    assert parameters(caffe.Blob.reshape) == '(self, *args)'
    assert parameters(caffe.init_log) == '(level=0, stderr=True)'
    assert parameters(caffe.Net.forward) == (
        '(self, blobs=None, start=None, end=None, codes=False, **kwargs)')
    assert caffe.Net.save.__doc__.startswith('Writes a caffemodel')
    for name in CLASSES:
        for attribute, member in vars(getattr(caffe, name)).items():
            if not attribute.startswith('_') and inspect.isfunction(member):
                assert 'keywords' not in parameters(member), name + '.' + attribute


def test_lists_of_names_are_completed():
    assert {'Convolution', 'ReLU', 'Python'} <= set(dir(L))
    from caffe import params as P
    assert {'Pooling', 'Data', 'LRN'} <= set(dir(P)) and {'MAX', 'AVE'} <= set(dir(P.Pooling))
    assert 'kernel_size' in L.Convolution.__doc__
    spec = NetSpec()
    spec.data = L.Input()
    assert 'data' in dir(spec) and 'to_proto' in dir(spec)
