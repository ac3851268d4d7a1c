"""Nets and solvers from messages: what files may hold, messages may hold."""
import pytest
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2

OLD_NET = '''
input: "data" input_dim: 2 input_dim: 1 input_dim: 1 input_dim: 3
layers { name: "ip" type: INNER_PRODUCT bottom: "data" top: "ip"
         inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layers { name: "loss" type: EUCLIDEAN_LOSS bottom: "ip" bottom: "ip" top: "loss" }
'''


@pytest.fixture(autouse=True)
def cpu():
    caffe.set_device('cpu')


def message(kind, text):
    return text_format.Parse(text, kind())


def test_old_layers_and_inputs():
    given = message(caffe_pb2.NetParameter, OLD_NET)
    net = caffe.Net(given, caffe.TEST)
    assert list(net._layer_names) == ['input', 'ip', 'loss']
    assert net.blobs['data'].data.shape == (2, 1, 1, 3)
    assert net.inputs == ['data']
    assert len(given.layers) == 2  # the caller's stays as it was


def test_layers_of_the_oldest_kind():
    net = caffe.Net(message(caffe_pb2.NetParameter, '''
        input: "data" input_dim: 1 input_dim: 1 input_dim: 4 input_dim: 4
        layers { layer { name: "pad" type: "padding" pad: 1 } bottom: "data" top: "padded" }
        layers { layer { name: "conv" type: "conv" num_output: 2 kernelsize: 3 }
                 bottom: "padded" top: "conv" }'''), caffe.TEST)
    assert net.blobs['conv'].data.shape == (1, 2, 4, 4)


def test_statistics_of_batch_norm_are_not_trained():
    net = 'layer { name: "bn" type: "BatchNorm" bottom: "data" top: "bn" %s }'
    given = message(caffe_pb2.NetParameter,
                    'input: "data" input_shape { dim: 2 dim: 3 }' + net % (3 * 'param {} '))
    assert len(caffe.Net(given, caffe.TRAIN).params['bn']) == 3


@pytest.mark.parametrize('field', ['net_param', 'train_net_param', 'test_net_param'])
def test_nets_in_solvers(field):
    settings = message(caffe_pb2.SolverParameter, '''
        base_lr: 0.1 lr_policy: "fixed" solver_type: ADAM''')
    if field == 'test_net_param':
        settings.test_iter.append(1)
        settings.test_interval = 1
        message_net = settings.test_net_param.add()
        text_format.Parse(OLD_NET, settings.train_net_param)
    else:
        message_net = getattr(settings, field)
    text_format.Parse(OLD_NET, message_net)
    solver = caffe.get_solver(settings)
    assert solver.type == 'Adam' and type(solver) is caffe.AdamSolver
    for net in [solver.net] + list(solver.test_nets):
        assert list(net._layer_names) == ['input', 'ip', 'loss']


def test_a_net_in_our_own_settings():
    settings = caffe.SolverParameter()
    settings.net_param = message(caffe_pb2.NetParameter, OLD_NET)
    settings.base_lr = 0.1
    settings.lr_policy = 'fixed'
    assert list(caffe.get_solver(settings).net._layer_names) == ['input', 'ip', 'loss']


def test_two_types_of_a_solver_contradict():
    settings = message(caffe_pb2.SolverParameter, '''
        base_lr: 0.1 lr_policy: "fixed" solver_type: ADAM type: "SGD"''')
    text_format.Parse(OLD_NET, settings.net_param)
    with pytest.raises(RuntimeError, match='both solver_type and type are given'):
        caffe.get_solver(settings)


def test_unknown_fields_are_errors():
    layer = caffe_pb2.LayerParameter(name='in', type='Input', top=['data'])
    # A field 4711 with the number 1, as of another Caffe's message.
    layer.MergeFromString(b'\xb8\xa6\x02\x01')
    given = caffe_pb2.NetParameter(layer=[layer])
    with pytest.raises(RuntimeError, match=r'layer in \(Input\) has an unknown field 4711'):
        caffe.Net(given, caffe.TEST)
    given.DiscardUnknownFields()
    assert caffe.Net(given, caffe.TEST).inputs == ['data']


def test_unknown_fields_of_layers_that_the_phase_leaves_out(tmp_path):
    path = tmp_path / 'net.prototxt'
    path.write_text('''
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } }
layer { name: "t" type: "DetectNetTransformation" top: "t" include { phase: TRAIN }
  transform_param { random_resize_param { min_size: 1 } } detectnet_groundtruth_param { } }
''')
    assert list(caffe.Net(str(path), caffe.TEST).blobs) == ['x']
    with pytest.raises(RuntimeError) as raised:
        caffe.Net(str(path), caffe.TRAIN)
    said = str(raised.value)
    assert 'layer t (DetectNetTransformation) with detectnet_groundtruth_param: there is no layer type' in said
    assert 'line 4: layer t (DetectNetTransformation): TransformationParameter has no field "random_resize_' in said
    solver = caffe_pb2.SolverParameter(net=str(path), base_lr=0.1, lr_policy='fixed')
    with pytest.raises(RuntimeError, match='line 4: layer t'):
        caffe.get_solver(solver)


def test_unknown_layers_are_listed_at_once(tmp_path):
    text = '''layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 } } }
layer { name: "norm" type: "DenseCRF" bottom: "data" top: "norm" }
layer { name: "r" type: "Relu" bottom: "norm" top: "r" }
'''
    with pytest.raises(RuntimeError) as raised:
        caffe.Net(message(caffe_pb2.NetParameter, text), caffe.TEST)
    said = str(raised.value).splitlines()
    assert said[1:3] == [
        "  layer norm (DenseCRF): there is no layer type 'DenseCRF'",
        "  layer r (Relu): there is no layer type 'Relu'; did you mean 'ReLU'?"]
    assert said[3].startswith('DenseCRF: a layer of DeepLab, not in Cortado; write it as a layer in Pyth')
    path = tmp_path / 'net.prototxt'
    path.write_text(text + 'layer { name: "p" type: "Correlation" correlation_param { pad: 3 } }\n')
    with pytest.raises(RuntimeError) as raised:
        caffe.Net(str(path), caffe.TEST)
    assert [line.split(':')[0] for line in str(raised.value).splitlines()[1:4]] == [
        '  line 2', '  line 3', '  line 4']
