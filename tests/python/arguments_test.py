"""Wrong arguments raise clear errors, and none ends the process."""
import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from nets import settings


@pytest.fixture
def net():
    caffe.set_device('cpu')
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]))
    spec.ip = L.InnerProduct(spec.data, num_output=3)
    proto = spec.to_proto()
    proto.name = 'tiny'
    return caffe.Net(proto, caffe.TEST)


def test_devices_are_names_or_numbers():
    for device, shown in ((None, 'None'), (1.5, r'1\.5 \(float\)'), ([0], r'\[0\] \(list\)')):
        for choose in (caffe.set_device, caffe.select_device, lambda d: caffe.set_devices([d])):
            with pytest.raises(TypeError, match='the device is ' + shown + ', not a name'):
                choose(device)
    with pytest.raises(RuntimeError, match='there is no device .?4294967296'):
        caffe.set_device(1 << 32)
    with pytest.raises(ValueError, match='64 bits'):
        caffe.set_device(1 << 70)
    caffe.set_device(np.int64(-1))
    assert caffe.device().name == 'cpu'


def test_shapes_are_numbers_or_one_list(net):
    blob = net.blobs['data']
    for shape in ((4, 3), [5, 3], (np.int64(6), 3)):
        blob.reshape(shape)
        assert blob.shape == tuple(shape)
        blob.reshape(*shape)
        assert blob.shape == tuple(shape)
    blob.reshape(())
    assert blob.shape == ()
    for shape, place, shown in ((('a',), 0, r"'a' \(str\)"), ((2, 2.5), 1, r'2\.5 \(float\)'),
                                (((2, None),), 1, 'None'), (((2, 3), 4), 0, r'\(2, 3\) \(tuple\)')):
        with pytest.raises(TypeError, match='blob data: reshape: extent %d is %s' % (place, shown)):
            blob.reshape(*shape)


def test_stages_are_names(net):
    proto = caffe.NetParameter()
    with pytest.raises(TypeError, match=r'stages holds 1 \(int\), not a name or a list of names'):
        caffe.Net(proto, caffe.TEST, stages=[1])
    with pytest.raises(TypeError, match=r'stages is 5 \(int\), not a name or a list of names'):
        caffe.Net(proto, caffe.TEST, stages=5)


def test_layers_and_blobs_are_counted_from_0(net):
    parameter = net.layers[1].layer_param
    assert parameter.bottom(0) == 'data' and parameter.top(0) == 'ip'
    for index in (1, 99, -1):
        with pytest.raises(IndexError, match='layer ip has 1 bottom, there is no bottom'):
            parameter.bottom(index)
        with pytest.raises(IndexError, match='layer ip has 1 top, there is no top'):
            parameter.top(index)
    assert net._bottom_ids(1) == [0] and net._top_ids(1) == [1]
    for index in (2, 99, -1):
        for ids in (net._bottom_ids, net._top_ids):
            with pytest.raises(IndexError, match='net tiny has 2 layers, there is no layer'):
                ids(index)


def test_arrays_go_into_layers(net):
    data, labels = np.zeros((1, 1)), np.zeros(1)
    for layer, shown in ((None, 'None'), (net.blobs['data'], 'Blob'), (3, r'3 \(int\)')):
        with pytest.raises(TypeError, match='needs a layer of net.layers, not .*' + shown):
            net.set_layer_input_arrays(layer, data, labels)
    with pytest.raises(RuntimeError, match='a MemoryData layer, not Input'):
        net.set_input_arrays(data, labels)
    with pytest.raises(TypeError, match=r'\(data, labels\) or \(index, data, labels\), not 1 arg'):
        net.set_input_arrays(data)


def test_files_have_names(net, tmp_path):
    for call in (net.save, net.copy_from, net.save_hdf5, net.load_hdf5,
                 lambda path: caffe.Net(path, caffe.TEST),
                 lambda path: caffe.Net(caffe.NetParameter(), caffe.TEST, weights=path),
                 caffe.get_solver, caffe.SGDSolver):
        with pytest.raises(ValueError, match='the file name is empty'):
            call('')
    solver = caffe.get_solver(settings(tmp_path))
    for call in (solver.restore, solver.solve):
        with pytest.raises(ValueError, match='the file name is empty'):
            call('')


def test_nets_and_solvers_that_were_never_made():
    class Unmade(caffe.Net):
        def __init__(self):
            pass

    with pytest.raises(TypeError):
        Unmade()
    empty = caffe.Net.__new__(caffe.Net)
    for use in (lambda: empty.name, lambda: empty.blobs, empty.forward, empty.reshape,
                lambda: empty._top_ids(0), lambda: empty.save('x'), empty.exclusive):
        with pytest.raises(TypeError, match='net was not made'):
            use()
    nothing = caffe.SGDSolver.__new__(caffe.SGDSolver)
    for use in (lambda: nothing.iter, lambda: nothing.net, lambda: nothing.param,
                lambda: nothing.step(1), lambda: nothing.lr, nothing.snapshot):
        with pytest.raises(TypeError, match='solver was not made'):
            use()


def test_states_check_phase_and_stages():
    state = caffe.SolverParameter().train_state
    state.phase = caffe.TEST
    with pytest.raises(RuntimeError, match='caffe.TRAIN or caffe.TEST, not 77'):
        state.phase = 77
    assert state.phase == caffe.TEST
    state.add_stage('deploy')
    for index in (-1, 1):
        with pytest.raises(IndexError, match='the state has 1 stage, there is no stage %d' % index):
            state.get_stage(index)
        with pytest.raises(IndexError, match='the state has 1 stage, there is no stage %d' % index):
            state.set_stage(index, 'other')
    assert state.get_stage(0) == 'deploy'
