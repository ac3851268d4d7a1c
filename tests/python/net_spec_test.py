import enum

import numpy as np
import pytest

import caffe
from caffe import layers as L, params as P, NetSpec, to_proto
from caffe.net_spec import assign_proto, param_name_dict
from caffe.proto import caffe_pb2


def lenet(batch_size):
    data, label = L.DummyData(shape=[dict(dim=[batch_size, 1, 28, 28]),
                                     dict(dim=[batch_size, 1, 1, 1])],
                              transform_param=dict(scale=1. / 255), ntop=2)
    conv1 = L.Convolution(data, kernel_size=5, num_output=20, weight_filler=dict(type='xavier'))
    pool1 = L.Pooling(conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    ip1 = L.InnerProduct(pool1, num_output=500, weight_filler=dict(type='xavier'))
    relu1 = L.ReLU(ip1, in_place=True)
    ip2 = L.InnerProduct(relu1, num_output=10, weight_filler=dict(type='xavier'))
    return L.SoftmaxWithLoss(ip2, label)


def test_a_net_without_names_gets_type_and_number():
    layers = to_proto(lenet(50)).layer
    assert [layer.name for layer in layers] == [
        'DummyData1', 'Convolution1', 'Pooling1', 'InnerProduct1', 'ReLU1', 'InnerProduct2',
        'SoftmaxWithLoss1']
    assert list(layers[0].top) == ['DummyData1', 'DummyData2']
    assert list(layers[4].bottom) == list(layers[4].top) == ['InnerProduct1']
    assert list(layers[5].bottom) == ['InnerProduct1']
    assert list(layers[6].bottom) == ['InnerProduct2', 'DummyData2']


def test_parameters_go_to_the_message_of_the_type_or_the_layer():
    layers = to_proto(lenet(50)).layer
    assert [list(shape.dim) for shape in layers[0].dummy_data_param.shape] == [
        [50, 1, 28, 28], [50, 1, 1, 1]]
    assert layers[0].transform_param.scale == pytest.approx(1 / 255)
    assert list(layers[1].convolution_param.kernel_size) == [5]
    assert layers[1].convolution_param.weight_filler.type == 'xavier'
    assert layers[2].pooling_param.pool == caffe_pb2.PoolingParameter.MAX
    assert layers[2].pooling_param.stride == 2


def test_names_by_attribute_and_by_item_give_the_same_net():
    n = NetSpec()
    n.data, n.label = L.Data(source='db', backend=P.Data.LMDB, batch_size=4, ntop=2)
    n['ip'] = L.InnerProduct(n.data, num_output=3)
    setattr(n, 'loss', L.SoftmaxWithLoss(getattr(n, 'ip'), n['label'], loss_weight=2))
    net = n.to_proto()
    assert n.keys() == ['data', 'label', 'ip', 'loss']
    assert [layer.name for layer in net.layer] == ['data', 'ip', 'loss']
    assert list(net.layer[0].top) == ['data', 'label']
    assert net.layer[0].data_param.backend == caffe_pb2.DataParameter.LMDB
    assert list(net.layer[2].loss_weight) == [2]
    with pytest.raises(AttributeError, match='no top nothing'):
        n.nothing


def test_in_place_layers_and_two_consumers():
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[2, 3]))
    n.ip1 = L.InnerProduct(n.data, num_output=4)
    n.relu1 = L.ReLU(n.ip1, in_place=True)
    n.drop1 = L.Dropout(n.relu1, in_place=True, dropout_ratio=0.25)
    n.ip2 = L.InnerProduct(n.drop1, num_output=4)
    n.ip3 = L.InnerProduct(n.drop1, num_output=4)
    layers = n.to_proto().layer
    assert [layer.name for layer in layers] == ['data', 'ip1', 'relu1', 'drop1', 'ip2', 'ip3']
    assert [list(layer.top) for layer in layers[2:4]] == [['ip1'], ['ip1']]
    assert list(layers[4].bottom) == list(layers[5].bottom) == ['ip1']
    assert layers[3].dropout_param.dropout_ratio == 0.25


def test_layers_without_tops():
    n = NetSpec()
    n.data, n.data2 = L.DummyData(shape=dict(dim=3), ntop=2)
    n.silence = L.Silence(n.data, ntop=0)
    n.silence2 = L.Silence(n.data2, ntop=0)
    net = n.to_proto()
    assert [layer.name for layer in net.layer] == ['data', 'silence', 'silence2']
    assert [list(layer.bottom) for layer in net.layer[1:]] == [['data'], ['data2']]
    assert not net.layer[1].top


def test_an_input_that_is_no_top_is_named():
    with pytest.raises(TypeError, match=r"^Silence input 0 is not a Top \(type is <(class|type) 'list"):
        L.Silence(['data'], ntop=0)
    with pytest.raises(TypeError, match='Convolution input 1 is not a Top'):
        L.Convolution(L.Input(), 3)


def test_the_tops_of_a_layer_are_no_bundle():
    data = L.DummyData(shape=[dict(dim=[2, 3])] * 2, ntop=2)
    with pytest.raises(TypeError) as error:
        L.Silence(data, ntop=0)
    assert str(error.value) == "Silence input 0 is not a Top (type is <class 'tuple'>)"
    with pytest.raises(TypeError, match='Silence input 0: two tops of one layer cannot'):
        L.Silence(list(data), ntop=0)
    layers = to_proto(L.Silence(*data, ntop=0)).layer
    assert list(layers[1].bottom) == ['DummyData1', 'DummyData2']


def test_a_misspelt_name_is_named():
    def message(make):
        with pytest.raises(AttributeError) as error:
            to_proto(make(L.Input(shape=dict(dim=[1, 3, 5, 5]))))
        return str(error.value)

    said = message(lambda x: L.Convolution(x, num_ouput=3))
    assert said == ('Convolution Convolution1: no parameter num_ouput in LayerParameter or '
                    'ConvolutionParameter; did you mean num_output?')
    said = message(lambda x: L.Convolutoin(x, num_output=3))
    assert said == ('Convolutoin Convolutoin1: unknown layer type Convolutoin; did you mean '
                    'Convolution?; no message has its parameter num_output')
    assert 'did you mean in_place?' in message(lambda x: L.ReLU(x, inplace=True))
    assert 'did you mean data_type?' in message(lambda x: L.ReLU(x, datatype='half'))
    said = message(lambda x: L.Convolution(x, weight_filler=dict(tipe='xavier')))
    assert 'parameter weight_filler: FillerParameter has no field tipe; did you mean type?' in said
    said = message(lambda x: L.ReLU(x, zzz=1))
    assert 'no parameter zzz' in said and 'did you mean' not in said
    with pytest.raises(AttributeError, match='no top dat; did you mean data'):
        n = NetSpec()
        n.data = L.Input()
        n.dat
    with pytest.raises(AttributeError, match='no message PoolinParameter; did you mean Pooling'):
        P.Poolin
    with pytest.raises(AttributeError, match='Parameter has no value MAXIMUM.*MAX, AVE, STOCHASTIC'):
        P.Pooling.MAXIMUM
    assert to_proto(L.MyOwn(L.Input())).layer[1].type == 'MyOwn'


def test_enum_values_by_name_and_their_errors():
    x = L.Input(shape=dict(dim=[1, 3, 5, 5]))
    for value in ('AVE', 'ave', 1, P.Pooling.AVE, np.int32(1)):
        layer = to_proto(L.Pooling(x, pool=value, kernel_size=2)).layer[1]
        assert layer.pooling_param.pool == caffe_pb2.PoolingParameter.AVE
    for value in ('MAXIMUM', 77, 1.5, None, [1]):
        with pytest.raises(ValueError, match=r'parameter pool: .* is not a value of pool; the '
                                             r'values are MAX, AVE, STOCHASTIC'):
            to_proto(L.Pooling(x, pool=value, kernel_size=2))
    layer = to_proto(L.ReLU(x, include=dict(phase='TEST'))).layer[1]
    assert layer.include[0].phase == caffe_pb2.TEST


def test_a_data_type_sets_the_three_of_a_layer():
    def types(**given):
        layer = to_proto(L.ReLU(L.Input(), **given)).layer[1]
        return (layer.bottom_data_type, layer.compute_data_type, layer.top_data_type)

    half, single = caffe_pb2.CAFFE_HALF, caffe_pb2.CAFFE_FLOAT
    for value in ('half', 'HALF', 'float16', 'CAFFE_HALF', half):
        assert types(data_type=value) == (half, half, half)
    assert types(data_type='half', top_data_type='float') == (half, half, single)
    assert types(top_data_type='bfloat16')[2] == caffe_pb2.CAFFE_BFLOAT16
    assert types(data_type='quant8') == types(data_type='int8') == (
        caffe_pb2.CAFFE_INT8_QUANTIZED,) * 3
    with pytest.raises(ValueError, match="'single' is not a value of bottom_data_type; the "
                                         'values are float, half, bfloat16, double, quant8, '
                                         'quant16, CAFFE_'):
        types(data_type='single')
    import caffe
    assert types(data_type=caffe.data_type.CAFFE_DOUBLE) == (caffe_pb2.CAFFE_DOUBLE,) * 3
    spec = NetSpec()
    spec.x = L.Input(shape=dict(dim=[2, 3]), data_type='half')
    spec.y = L.ReLU(spec.x, data_type='half')
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    assert [blob.data.dtype for blob in net.blobs.values()] == [np.float16] * 2


def test_an_unknown_parameter_is_an_error_with_layer_and_name():
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[1]))
    n.ip = L.InnerProduct(n.data, num_outputs=3)
    with pytest.raises(AttributeError, match='InnerProduct ip: no parameter num_outputs'):
        n.to_proto()


def test_a_bundle_is_one_name_for_the_layers_of_two_phases():
    n = NetSpec()
    train_data, train_label = L.Data(source='train', include=dict(phase=0), ntop=2)
    test_data, test_label = L.Data(source='test', include=dict(phase=1), ntop=2)
    n.data = [train_data, test_data]
    n.label = [train_label, test_label]
    n.ip = L.InnerProduct(n.data, num_output=2)
    n.loss = L.SoftmaxWithLoss(n.ip, n.label)
    layers = n.to_proto().layer
    assert [layer.name for layer in layers] == ['data', 'data', 'ip', 'loss']
    assert [layer.data_param.source for layer in layers[:2]] == ['test', 'train']
    assert [list(layer.top) for layer in layers[:2]] == [['data', 'label']] * 2
    assert list(layers[2].bottom) == ['data']
    assert list(layers[3].bottom) == ['ip', 'label']


def test_a_bundle_may_be_a_bottom_without_a_name_in_the_net():
    train = L.Data(source='train', include=dict(phase=0))
    test = L.Data(source='test', include=dict(phase=1))
    layers = to_proto(L.InnerProduct([train, test], num_output=2)).layer
    assert [list(layer.top) for layer in layers[:2]] == [['Data1'], ['Data1']]
    assert list(layers[2].bottom) == ['Data1']


def test_a_bundle_with_two_names_is_an_error():
    n = NetSpec()
    n.a = L.Input()
    n.b = L.Input()
    n.ip = L.InnerProduct([n.a, n.b])
    with pytest.raises(ValueError, match='different names: a, b'):
        n.to_proto()
    with pytest.raises(TypeError, match='two tops of one layer'):
        n.pair = list(L.Data(ntop=2))


def test_messages_and_lists_of_messages_are_values():
    gating = caffe_pb2.NetParameter(name='gating')
    experts = [caffe_pb2.NetParameter(name='expert%d' % i) for i in range(3)]
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 2]))
    n.moe = L.MOE(n.data, gating_net=gating, expert_net=experts, select_experts=2)
    param = n.to_proto().layer[1].moe_param
    assert param.gating_net.name == 'gating'
    assert [net.name for net in param.expert_net] == ['expert0', 'expert1', 'expert2']
    assert param.select_experts == 2


def test_enums_of_the_bindings_and_numpy_numbers_are_values():
    class DataType(enum.Enum):  # as the bindings': no int, but convertible to one
        CAFFE_HALF = 1

        def __index__(self):
            return self.value

        __int__ = __index__

    n = NetSpec()
    n.data = L.Input(shape=dict(dim=np.array([1, 2])))
    n.ip = L.InnerProduct(n.data, bottom_data_type=DataType.CAFFE_HALF, num_output=np.int64(7),
                          bias_term=np.bool_(False),
                          weight_filler=dict(type='constant', value=np.float32(0.5)))
    layer = n.to_proto().layer[1]
    assert layer.bottom_data_type == caffe_pb2.CAFFE_HALF
    assert not layer.HasField('top_data_type')
    assert layer.inner_product_param.num_output == 7
    assert layer.inner_product_param.bias_term is False
    assert layer.inner_product_param.weight_filler.value == 0.5


def test_data_types_of_the_package_are_values():
    import caffe
    layer = to_proto(L.ReLU(L.Input(), compute_data_type=caffe.data_type.CAFFE_HALF)).layer[1]
    assert layer.compute_data_type == caffe_pb2.CAFFE_HALF


def test_a_parameter_that_is_given_its_default_is_written():
    layer = to_proto(L.Input(include=dict(phase=0), shape=dict())).layer[0]
    assert layer.include[0].HasField('phase')
    assert len(layer.input_param.shape) == 1


def test_engines_param_specs_and_names():
    ip = L.InnerProduct(L.Input(), name='fc', param=[dict(lr_mult=1), dict(lr_mult=2)])
    layers = to_proto(L.LRN(ip, engine=P.LRN.CAFFE)).layer
    assert layers[1].name == 'fc'
    assert [spec.lr_mult for spec in layers[1].param] == [1, 2]
    assert layers[2].lrn_param.engine == caffe_pb2.LRNParameter.CAFFE


def test_a_net_deeper_than_the_recursion_limit():
    top = L.Input()
    for _ in range(3000):
        top = L.ReLU(top)
    assert len(to_proto(top).layer) == 3001


def test_the_result_is_a_net_parameter_and_reads_back():
    from google.protobuf import text_format
    net = to_proto(lenet(2))
    net.name = 'net'
    net.reduced_memory_inference = True
    assert text_format.Parse(str(net), caffe_pb2.NetParameter()) == net


def test_every_type_finds_its_message():
    names = param_name_dict()
    assert names['InnerProduct'] == 'inner_product'
    assert names['LRN'] == 'lrn'
    assert names['MOE'] == 'moe'
    assert names['Deconvolution'] == names['DepthwiseConvolution'] == 'convolution'
    assert names['ConvolutionDepthwise'] == 'convolution'
    assert names['BN'] == 'bn' and names['Interp'] == 'interp' and names['Upsample'] == 'upsample'
    assert names['ROIPooling'] == 'roi_pooling' and names['PSROIPooling'] == 'psroi_pooling'


def test_assign_proto_refuses_what_does_not_fit():
    layer = caffe_pb2.LayerParameter()
    with pytest.raises(AttributeError, match='LayerParameter has no field nothing'):
        assign_proto(layer, 'nothing', 1)
    with pytest.raises(TypeError, match='ConvolutionParameter takes a dict'):
        assign_proto(layer, 'convolution_param', 3)


def test_nested_nets_are_values_of_moe():
    gating, expert = NetSpec(), NetSpec()
    gating.x = L.Input(shape=dict(dim=[1, 8]))
    gating.ip = L.InnerProduct(gating.x, num_output=4, weight_filler=dict(type='xavier'))
    gating.softmax = L.Softmax(gating.ip)
    expert.x = L.Input(shape=dict(dim=[1, 8]))
    expert.ip = L.InnerProduct(expert.x, num_output=3, weight_filler=dict(type='xavier'))
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[5, 8]))
    n.moe, n.observed, n.expected = L.MOE(n.data, gating=gating, expert=expert, experts=4, select=2,
                                          usage_loss_weight=0.5, ntop=3)
    param = n.to_proto().layer[1].moe_param
    assert [layer.name for layer in param.gating_net.layer] == ['x', 'ip', 'softmax']
    assert len(param.expert_net) == 1 and list(param.expert_instances) == [4]
    assert param.select_experts == 2 and param.usage_loss_weight == 0.5
    n.moe2 = L.MOE(n.moe, gating=gating.to_proto(), expert=[expert, expert.to_proto()],
                   experts=[1, 2])
    param = n.to_proto().layer[2].moe_param
    assert param.expert_net[0] == param.expert_net[1]
    assert list(param.expert_instances) == [1, 2]


def test_moe_refuses_a_word_and_its_field():
    n = NetSpec()
    n.x = L.Input()
    n.moe = L.MOE(n.x, select=1, select_experts=2)
    with pytest.raises(TypeError, match='given twice'):
        n.to_proto()


def test_a_net_with_moe_runs():
    gating, expert = NetSpec(), NetSpec()
    gating.x = L.Input(shape=dict(dim=[1, 8]))
    gating.ip = L.InnerProduct(gating.x, num_output=4, weight_filler=dict(type='xavier'))
    gating.softmax = L.Softmax(gating.ip)
    expert.x = L.Input(shape=dict(dim=[1, 8]))
    expert.ip = L.InnerProduct(expert.x, num_output=3, weight_filler=dict(type='xavier'))
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[5, 8]))
    n.moe, n.observed, n.expected = L.MOE(n.data, gating=gating, expert=expert, experts=4, select=2,
                                          ntop=3)
    net = caffe.Net(n.to_proto(), caffe.TEST)
    net.blobs['data'].data[...] = np.arange(40).reshape(5, 8) / 40
    out = net.forward()
    assert out['moe'].shape == (5, 3)
    assert np.allclose(out['observed'].sum(axis=1), 2) and np.all(out['expected'] == 0.5)
    assert len(net.params['moe']) == 2 + 4 * 2


def test_explicit_names_of_tops_win_and_set_their_number():
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[2, 4]))
    n.first, n.second = L.Slice(n.data, top=['a', 'b'], axis=1)
    n.relu = L.ReLU(n.second, top='c')
    n.sum = L.Eltwise(n.first, n.relu)
    layers = n.to_proto().layer
    assert [list(layer.top) for layer in layers] == [['data'], ['a', 'b'], ['c'], ['sum']]
    assert [list(layer.bottom) for layer in layers] == [[], ['data'], ['b'], ['a', 'c']]
    assert [layer.name for layer in layers] == ['data', 'a', 'c', 'sum']
    assert caffe.Net(n.to_proto()).forward(data=np.ones((2, 4)))['sum'].tolist() == [[2, 2]] * 2

    both = NetSpec()
    both.data, both.label = L.DummyData(shape=[dict(dim=[1])] * 2, ntop=2, top=('data', 'label'))
    assert list(both.to_proto().layer[0].top) == ['data', 'label']
    # Without tops to use, as scripts of others write it.
    silent = NetSpec()
    silent.data = L.Python(ntop=0, top=['x', 'y'], module='m', layer='L')
    silent.out = L.Eltwise(bottom=['x', 'y'])
    layers = silent.to_proto().layer
    assert list(layers[0].top) == ['x', 'y'] and list(layers[1].bottom) == ['x', 'y']

    for make in (lambda: L.Slice(n.data, ntop=3, top=['a', 'b']), lambda: L.ReLU(n.data, top=[1]),
                 lambda: L.ReLU(n.data, top='x', in_place=True),
                 lambda: L.ReLU(n.data, bottom='data')):
        with pytest.raises(TypeError):
            make()


def test_lists_of_integers_are_shapes():
    n = NetSpec()
    n.x = L.Input(shape=[4, 1, 28, 28])
    n.y, n.z = L.DummyData(shape=[[2, 3], dict(dim=[4])], ntop=2)
    n.flat = L.Reshape(n.x, shape=(0, -1))
    layers = n.to_proto().layer
    assert list(layers[0].input_param.shape[0].dim) == [4, 1, 28, 28]
    assert [list(shape.dim) for shape in layers[1].dummy_data_param.shape] == [[2, 3], [4]]
    assert list(layers[2].reshape_param.shape.dim) == [0, -1]
    with pytest.raises(TypeError, match='BlobShape takes a dict or a message'):
        to_proto(L.Input(shape=[2, 'x']))


def test_lists_of_pooling_are_height_and_width():
    def pooling(**parameters):
        return to_proto(L.Pooling(L.Input(shape=[1, 1, 6, 7]), **parameters)).layer[1].pooling_param

    param = pooling(kernel_size=[3, 2], stride=(2,), pad=np.array([1, 0]))
    assert (param.kernel_h, param.kernel_w, param.stride, param.pad_h, param.pad_w) == (3, 2, 2, 1, 0)
    assert not param.HasField('kernel_size') and param.HasField('pad_w')
    with pytest.raises(ValueError, match='kernel_size is one value, or one for height and one'):
        pooling(kernel_size=[1, 2, 3])
    spec = NetSpec()
    spec.x = L.Input(shape=[1, 1, 6, 7])
    spec.pool = L.Pooling(spec.x, kernel_size=[3, 2])
    assert caffe.Net(spec).blobs['pool'].shape == (1, 1, 4, 6)


def test_a_net_is_made_of_a_spec_or_a_top():
    n = NetSpec()
    n.x = L.Input(shape=[2])
    n.y = L.Power(n.x, scale=3)
    for given in (n, n.y):
        assert caffe.Net(given, caffe.TEST).forward(**{
            caffe.Net(given).inputs[0]: [1, 2]}).popitem()[1].tolist() == [3, 6]
    assert repr(n) == '<caffe.NetSpec of 2 tops: x, y>'
    assert repr(n.y) == '<caffe top 0 of <caffe layer Power(scale=3)>>'
