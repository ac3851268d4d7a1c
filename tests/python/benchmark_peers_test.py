"""tools/benchmark/nets.py: nets as graphs, their counterparts in other frameworks, and reports.

The graphs are computed with NumPy here. PyTorch, ONNX Runtime and OpenVINO are compared where the
interpreter CAFFE_PEER_PYTHON (default: this one) has them.
"""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import caffe
from caffe import layers as L, params as P
from caffe.proto import caffe_pb2

from nets import TEST, write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCHMARK = os.path.join(ROOT, 'tools', 'benchmark')
PEER_PYTHON = os.environ.get('CAFFE_PEER_PYTHON', sys.executable)
TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(caffe.__file__))))


@pytest.fixture(scope='module')
def program():
    """The modules of the benchmark; its nets.py under another name than that of these tests."""
    import importlib.util
    sys.path.insert(0, BENCHMARK)
    try:
        from peers import extract, graph, ours
        import report
        spec = importlib.util.spec_from_file_location('benchmark_nets',
                                                      os.path.join(BENCHMARK, 'nets.py'))
        nets = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(nets)
    finally:
        sys.path.remove(BENCHMARK)

    class Modules:
        pass

    modules = Modules()
    modules.extract, modules.graph, modules.ours = extract, graph, ours
    modules.report, modules.nets = report, nets
    return modules


# --- A graph in NumPy -----------------------------------------------------------------------------

def windows(x, kernel, stride, dilation, pooled):
    """(images, channels, rows, columns, kernel rows, kernel columns) of an image that is padded."""
    result = np.empty((*x.shape[:2], *pooled, *kernel), x.dtype)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = i * dilation[0] + stride[0] * np.arange(pooled[0])
            columns = j * dilation[1] + stride[1] * np.arange(pooled[1])
            result[..., i, j] = x[:, :, rows[:, None], columns]
    return result


def padded(x, before, behind, value):
    return np.pad(x, [(0, 0), (0, 0), *zip(before, behind)], constant_values=value)


def convolution(a, x, weight, bias=None):
    spatial = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(
        x.shape[2:], a['pad'], a['dilation'], a['kernel'], a['stride'])]
    patches = windows(padded(x, a['pad'], a['pad'], 0), a['kernel'], a['stride'], a['dilation'],
                      spatial)
    parts = [np.einsum('nchwij,ocij->nohw', *pair) for pair in zip(
        np.split(patches, a['group'], 1), np.split(weight, a['group']))]
    result = np.concatenate(parts, 1)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def pool(a, x, shape):
    """Caffe's definition: the divisor counts the padding, but nothing behind it."""
    result = np.empty(shape)
    for row in range(shape[2]):
        for column in range(shape[3]):
            begin = [i * s - p for i, s, p in zip((row, column), a['stride'], a['pad'])]
            end = [min(b + k, n + p) for b, k, n, p in zip(begin, a['kernel'], x.shape[2:],
                                                           a['pad'])]
            area = (end[0] - begin[0]) * (end[1] - begin[1])
            window = x[:, :, max(0, begin[0]):end[0], max(0, begin[1]):end[1]]
            result[:, :, row, column] = (window.max((2, 3)) if a['method'] == 'max' else
                                         window.sum((2, 3)) / area)
    return result


def lrn(a, x):
    squares = np.pad(x * x, [(0, 0), (a['size'] // 2,) * 2, (0, 0), (0, 0)])
    total = sum(squares[:, i:i + x.shape[1]] for i in range(a['size']))
    return x / (a['k'] + a['alpha'] / a['size'] * total) ** a['beta']


def mixture(nested, a, x, weights):
    """Loops over items and over the selected experts; `nested` makes graphs of fields."""
    count = len(a['gating_arrays'])
    gating = nested(a['gating']).with_batch(len(x))
    gate = values_of(gating, dict(zip(a['gating_arrays'], weights[:count])), x)[gating.output]
    expert, length, rows = nested(a['expert']).with_batch(1), len(a['expert_arrays']), []
    for n, item in enumerate(gate):
        chosen = np.argsort(-item, kind='stable')[:a['select']]
        own = [dict(zip(a['expert_arrays'], weights[count + e * length:])) for e in chosen]
        parts = [values_of(expert, arrays, x[n:n + 1])[expert.output] for arrays in own]
        rows.append(sum(item[e] / item[chosen].sum() * part for e, part in zip(chosen, parts)))
    return np.concatenate(rows)


def compute(node, inputs, weights, shape):
    a, x = node.attributes, inputs[0]

    def channels(array):
        return array.reshape(-1, *[1] * (x.ndim - 2))

    if node.operation == 'batch_norm':
        mean, variance, factor, offset = map(channels, weights)
        return (x - mean) / np.sqrt(variance + a['eps']) * factor + offset
    if node.operation == 'scale':
        x = x * channels(weights[0])
        return x + channels(weights[1]) if len(weights) > 1 else x
    if node.operation == 'inner_product':
        return x.reshape(len(x), -1) @ weights[0].T + (weights[1] if len(weights) > 1 else 0)
    if node.operation == 'eltwise':
        if a['method'] == 'sum':
            return sum(factor * value for factor, value in zip(a['factors'], inputs))
        return (np.multiply if a['method'] == 'product' else np.maximum).reduce(inputs)
    if node.operation == 'mixture':
        return mixture(sys.modules[type(node).__module__].from_fields, a, x, weights)
    if node.operation == 'softmax':
        powers = np.exp(x - x.max(a['axis'], keepdims=True))
        return powers / powers.sum(a['axis'], keepdims=True)
    functions = dict(
        concat=lambda: np.concatenate(inputs, a['axis']), convolution=lambda: convolution(
            a, x, *weights), dropout=lambda: x, flatten=lambda: x.reshape(shape),
        lrn=lambda: lrn(a, x), pool=lambda: pool(a, x, shape),
        relu=lambda: np.where(x > 0, x, a['slope'] * x), reshape=lambda: x.reshape(shape))
    return functions[node.operation]()


def values_of(graph, arrays, data):
    values = {graph.input: data.astype(np.float64)}
    for node in graph.nodes[1:]:
        values[node.output] = compute(node, [values[name] for name in node.inputs],
                                      [arrays[name].astype(np.float64) for name in node.weights],
                                      graph.shapes[node.output])
        assert values[node.output].shape == tuple(graph.shapes[node.output]), node.name
    return values


# --- Nets -----------------------------------------------------------------------------------------

def gating_net(filler):
    net = caffe.NetSpec()
    net.data = L.Input()
    net.score = L.InnerProduct(net.data, num_output=4, **filler)
    net.noise = L.Noise(net.score)
    net.sum = L.Eltwise(net.score, net.noise)
    net.gate = L.Softmax(net.sum)
    return net


def expert_net(filler):
    net = caffe.NetSpec()
    net.data = L.Input()
    net.hidden = L.InnerProduct(net.data, num_output=6, **filler)
    net.relu = L.ReLU(net.hidden, in_place=True)
    net.out = L.InnerProduct(net.relu, num_output=7, **filler)
    return net


def scale_down(net):
    """Scores of a few units, of the experts and of the classes."""
    net.params['mixture'][0].data[...] *= 0.02
    for blob in net.params['mixture'][2:]:
        blob.data[...] *= 0.3
    net.params['ip'][0].data[...] *= 0.02


def net_of_all_layers():
    """Every layer that is converted, in the forms in which frameworks differ."""
    net = caffe.NetSpec()
    filler = dict(weight_filler=dict(type='xavier'))
    net.data = L.Input(shape=dict(dim=[2, 4, 13, 11]))
    net.conv = L.Convolution(net.data, num_output=6, kernel_h=3, kernel_w=2, stride_h=1, stride_w=2,
                             pad_h=2, pad_w=1, **filler)
    net.norm = L.BatchNorm(net.conv, eps=0.01)
    net.scale = L.Scale(net.norm, in_place=True, bias_term=True)
    net.relu = L.ReLU(net.scale, in_place=True, negative_slope=0.1)
    net.dilated = L.Convolution(net.relu, num_output=6, kernel_size=3, dilation=2, pad=2, group=2,
                                bias_term=False, **filler)
    net.depthwise = L.Convolution(net.relu, num_output=6, kernel_size=3, pad=1, group=6, **filler)
    net.sum = L.Eltwise(net.dilated, net.depthwise, coeff=[0.5, -2])
    net.product = L.Eltwise(net.dilated, net.sum, operation=P.Eltwise.PROD)
    net.largest = L.Eltwise(net.product, net.sum, net.relu, operation=P.Eltwise.MAX)
    net.bare_norm = L.BatchNorm(net.largest)
    net.normalised = L.LRN(net.bare_norm, local_size=3, alpha=0.7, beta=0.6, k=1.5)
    net.factor = L.Scale(net.normalised)
    net.joined = L.Concat(net.factor, net.sum)
    net.largest_of = L.Pooling(net.joined, pool=P.Pooling.MAX, kernel_size=3, stride=2)
    net.mean = L.Pooling(net.largest_of, pool=P.Pooling.AVE, kernel_size=3, stride=2, pad=1)
    net.floored = L.Pooling(net.joined, pool=P.Pooling.AVE, kernel_size=2, stride=3, pad=1,
                            round_mode=P.Pooling.FLOOR)
    # The last windows end behind the image, and behind its padding.
    net.cut = L.Pooling(net.joined, pool=P.Pooling.AVE, kernel_size=3, stride=2)
    net.cut_padding = L.Pooling(net.joined, pool=P.Pooling.AVE, kernel_size=4, stride=3, pad=1)
    net.mean_relu = L.ReLU(net.mean, in_place=True)
    net.flat = L.Flatten(net.mean_relu)
    net.whole = L.Pooling(net.floored, pool=P.Pooling.AVE, global_pooling=True)
    net.shaped = L.Reshape(net.whole, shape=dict(dim=[0, -1]))
    net.both = L.Concat(net.flat, net.shaped, L.Flatten(net.cut), L.Flatten(net.cut_padding))
    net.dropped = L.Dropout(net.both, in_place=True, dropout_ratio=0.3)
    net.mixture = L.MOE(net.dropped, gating=gating_net(filler), expert=expert_net(filler), experts=4,
                        select=2)
    net.ip = L.InnerProduct(net.mixture, num_output=5, **filler)
    net.prob = L.Softmax(net.ip)
    proto = net.to_proto()
    proto.name = 'all layers'
    return proto


def pool_net(method, size, kernel, stride, pad, rounding):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[1, 2, size, size + 1]))
    net.pool = L.Pooling(net.data, pool=method, kernel_size=kernel, stride=stride, pad=pad,
                         round_mode=rounding)
    return net.to_proto()


def random_net(path, seed=1):
    net = caffe.Net(path, TEST)
    random = np.random.RandomState(seed)
    for blob in [blob for blobs in net.params.values() for blob in blobs]:
        blob.data[...] = random.uniform(0.5, 1.5, blob.shape) * random.choice([1, -1], blob.shape)
    for name, layer in zip(net._layer_names, net.layers):
        if layer.type == 'BatchNorm':
            layer.blobs[1].data[...] = np.abs(layer.blobs[1].data)
            layer.blobs[2].data[...] = 2.5  # what mean and variance are divided by
    data = net.blobs[net.inputs[0]]
    data.data[...] = random.uniform(-1, 1, data.shape)
    return net


def test_a_graph_computes_what_the_net_computes(tmp_path, program):
    net = random_net(write(tmp_path, net_of_all_layers()))
    scale_down(net)
    output = net.forward()['prob']
    graph, arrays = program.extract.extract(net)
    values = values_of(graph, arrays, np.array(net.blobs['data'].data))
    assert {node.operation for node in graph.nodes} == set(program.graph.OPERATIONS)
    for name in ('conv', 'largest', 'factor', 'joined', 'floored', 'cut', 'cut_padding', 'flat',
                 'both', 'mixture'):
        final = next(value for value in reversed(values) if value.split(' of ')[0] == name)
        np.testing.assert_allclose(values[final], net.blobs[name].data, rtol=1e-4, atol=1e-4,
                                   err_msg=name)
    assert 0.01 < output.max() < 0.999
    np.testing.assert_allclose(values[graph.output], output, rtol=1e-4, atol=1e-5)


def test_a_graph_survives_its_file(tmp_path, program):
    graph, arrays = program.extract.extract(random_net(write(tmp_path, net_of_all_layers())))
    program.graph.save(graph, arrays, str(tmp_path / 'graph.npz'))
    loaded, loaded_arrays = program.graph.load(str(tmp_path / 'graph.npz'))
    assert loaded.shapes == graph.shapes and len(loaded.nodes) == len(graph.nodes)
    assert loaded_arrays.keys() == arrays.keys()
    assert all((loaded_arrays[name] == arrays[name]).all() for name in arrays)
    larger = loaded.with_batch(7)
    larger.check_shapes()
    assert larger.shapes[larger.output] == (7, 5) and loaded.shapes[loaded.output] == (2, 5)


POOLS = [(size, kernel, stride, pad) for size in range(4, 10) for kernel in (1, 2, 3, 4)
         for stride in (1, 2, 3) for pad in (0, 1, 2) if pad < kernel]


@pytest.mark.parametrize('rounding', ['CEIL', 'FLOOR'])
def test_shapes_of_pooling_are_those_of_the_layer(tmp_path, program, rounding):
    for case in POOLS:
        proto = pool_net(P.Pooling.MAX, *case, getattr(P.Pooling, rounding))
        net = caffe.Net(write(tmp_path, proto), TEST)
        graph, _ = program.extract.extract(net)  # throws if the rule disagrees
        assert tuple(graph.shapes[graph.output]) == tuple(net.blobs['pool'].shape), case


def test_a_wrong_rule_is_found(tmp_path, program):
    graph, _ = program.extract.extract(random_net(write(tmp_path, net_of_all_layers())))
    node = next(node for node in graph.nodes if node.name == 'largest_of')
    node.attributes['round_up'] = False
    with pytest.raises(ValueError, match=r'largest_of \(pool\): shape .* but the net has'):
        graph.check_shapes()


def test_layers_without_counterpart_are_named(tmp_path, program):
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[1, 2, 3, 4]))
    net.power = L.Power(net.data, power=2)
    with pytest.raises(ValueError, match=r'power \(Power\): this type has no counterpart'):
        program.extract.extract(caffe.Net(write(tmp_path, net.to_proto()), TEST))


def test_dropout_is_left_out_of_the_check_of_losses(tmp_path, program):
    """Both where it works in place and where it does not."""
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[2, 3]))
    net.first = L.Dropout(net.data)
    net.second = L.Dropout(net.first, in_place=True)
    net.ip = L.InnerProduct(net.second, num_output=4)
    net.prob = L.Softmax(net.ip)
    made = program.ours.training_net(str(net.to_proto()), dropout=False)
    assert [(layer.type, list(layer.bottom)) for layer in made.layer] == [
        ('Input', []), ('InnerProduct', ['data']), ('SoftmaxWithLoss', ['ip', 'label'])]
    assert sum(layer.type == 'Dropout' for layer in
               program.ours.training_net(str(net.to_proto())).layer) == 2


def test_a_softmax_becomes_a_loss(program):
    path = os.path.join(ROOT, program.nets.MODELS['lenet'])
    net = program.ours.training_net(program.ours.prototxt(path, 'half', 3))
    assert net.data_type == caffe_pb2.CAFFE_HALF
    assert [list(shape.dim) for shape in net.layer[0].input_param.shape] == [[3, 1, 28, 28], [3]]
    last = net.layer[-1]
    assert (last.type, list(last.bottom), list(last.top)) == ('SoftmaxWithLoss', ['ip2', 'label'],
                                                              ['loss'])


def test_blocks_are_recomputed_but_not_their_outputs(program):
    path = os.path.join(ROOT, program.nets.MODELS['resnet50'])
    net = program.ours.training_net(program.ours.prototxt(path, 'float', 2))
    program.ours.recompute_blocks(net)
    marked = {layer.name: layer.recompute for layer in net.layer}
    assert marked['conv1'] and marked['res2a_branch2a'] and marked['scale2a_branch2c']
    assert not any(marked[name] for name in ('data', 'pool1', 'res2a', 'res2a_relu', 'fc1000'))


# Numbers to learn, without the running sums of BatchNorm.
PARAMETERS = {'alexnet': 60965224, 'caffenet': 60965224, 'caffenet_moe': 77456136,
              'cifar10_quick': 145578, 'googlenet': 6998552, 'lenet': 431080, 'mobilenet_v1': 4231976,
              'resnet50': 25557096, 'squeezenet': 1248424}


@pytest.mark.parametrize('model', PARAMETERS)
def test_models_are_converted(tmp_path, program, model):
    """Shapes are compared with the net's inside of extract()."""
    text = program.ours.prototxt(os.path.join(ROOT, program.nets.MODELS[model]), 'float', 1)
    proto = caffe_pb2.NetParameter()
    from google.protobuf import text_format
    text_format.Parse(text, proto)
    for layer in proto.layer:  # weights of 0 need no time
        for parameter in (layer.convolution_param, layer.inner_product_param):
            if parameter.HasField('weight_filler'):
                parameter.weight_filler.CopyFrom(caffe_pb2.FillerParameter())
    net = caffe.Net(write(tmp_path, proto), TEST)
    graph, arrays = program.extract.extract(net)
    assert graph.output == net.outputs[0] and graph.nodes[-1].operation == 'softmax'
    assert not any(node.operation == 'scale' for node in graph.nodes)
    learned = sum(arrays[name].size for node in graph.nodes
                  for name in node.weights[2 if node.operation == 'batch_norm' else 0:])
    assert learned == PARAMETERS[model]


# --- The program ----------------------------------------------------------------------------------

def case_of(**sides):
    return dict(model='lenet', type='float', batch=1, work='forward', sides=sides)


def test_a_side_with_other_results_is_found(program):
    right, wrong = [[0.25, 0.75]], [[0.30, 0.70]]
    faults = program.report.faults
    near = [[0.2501, 0.7499]]
    assert not faults(case_of(a=dict(output=right), b=dict(output=near)), right)
    found = faults(case_of(a=dict(output=right), b=dict(output=wrong)), right)
    assert len(found) == 1 and found[0].startswith('the output of b differs by 0.067; 0.001 is')
    assert faults(case_of(a=dict(output=[[0.25, float('nan')]])), right)
    assert faults(case_of(a=dict(output=[[0.25]])), right)
    assert not faults(case_of(a=dict(output=right), b=dict(skipped='no package')), right)


def test_losses_are_compared(program):
    def faults(first, other, **more):
        case = dict(case_of(a=dict(output=[[1]], losses=first), b=dict(output=[[1]], losses=other)),
                    **more)
        return program.report.faults(case, [[1]])

    assert not faults([3, 2, 1], [3.002, 2.003, 1.004])
    assert 'the losses of b (3, 2, 1.1) differ' in faults([3, 2, 1], [3, 2, 1.1])[0]
    assert faults([3, 2, 1], [3.01, 2, 1])
    assert faults([3, 2, 1], [3, 2, float('nan')])
    # In half, an update that is skipped repeats a loss.
    assert not faults([3, 3, 2, 1], [3, 2, 1, 0.5], type='half')
    assert faults([3, 3, 2, 1], [3, 1, 0.5, 0.2], type='half')


def test_the_report(program):
    facts = dict(difference=1e-6, milliseconds=[2.0, 4.0, 3.0], mib=10.0)
    other = dict(difference=1e-5, milliseconds=[1.0, 1.0, 2.0])
    cases = [dict(case_of(ours=facts, ort=other), target=[1.5, None], faults=[]),
             dict(case_of(ours=dict(difference=1.0), ort=dict(skipped='no package')), batch=2,
                  faults=['the output differs'], target=None)]
    run = dict(command='nets.py --sides ours=FOLDER,ort', date='2026-01-02 03:04', commit='abc', device='cpu', device_name='A processor',
               host='A host', rounds=3, seconds=1.0, versions={'ONNX Runtime': '1.2'}, cases=cases)
    text = program.report.report([run])
    assert ('| net | type | batch | ours ms | ours MiB | ort ms | ours / ort | target ms | '
            'target MiB |') in text
    assert '| lenet | float | 1 | 3 | 10.0 | 1 | 2.00 (1.50 to 4.00) | 1.5 | – |' in text
    assert '| lenet | float | 2 | – | – | – | – | – | – |' in text
    assert '* ours / ort, float: **2.00**, at most 2.00 (lenet, batch 1)' in text
    assert '* Not timed: lenet, float, batch 2: the output differs' in text
    assert '* ort was left out (float): no package' in text
    assert '* Command: `nets.py --sides ours=FOLDER,ort`\n' in text
    assert '* ort: ONNX Runtime' in text and 'openvino:' not in text
    assert 'Versions: ONNX Runtime 1.2' in text and '# Forward passes: cpu\n' in text


def test_small_ratios_keep_two_digits(program):
    assert [program.report.ratio_text(ratio) for ratio in (2.346, 0.1, 0.0123)] == [
        '2.35', '0.10', '0.012']


ERRORS = {
    '--sides torch': 'torch: the first side must be a tree, NAME=FOLDER',
    '--sides a=.,tensorflow': 'tensorflow is neither NAME=FOLDER nor a peer; peers are torch',
    '--sides a=.,torch-graph-compile': 'torch-graph-compile is neither',
    '--sides a=.,a=.': 'a name is given twice',
    '--sides a=.,ort=.': 'a tree needs another name than a peer',
    '--sides a=': 'write NAME=FOLDER',
    '--models lenet5': 'lenet5 is not one of alexnet, ',
    '--types int4': 'int4 is not one of float, half, bfloat16, int16, int8',
    '--batches 1,0': 'positive integers are needed',
    '--batches x': 'positive integers are needed',
    '--seconds 0': '0 is not a positive number',
    '--rounds 0': '--rounds and --threads must be positive',
    '--parts lenet-training': '--parts needs --preset',
    '--preset h200 --parts lenet': 'lenet is not one of caffenet-forward, ',
    '--recompute b': '--recompute: b is not a tree; trees are cortado',
    '--pass backward': "invalid choice: 'backward'",
}


@pytest.mark.parametrize('line', ERRORS)
def test_wrong_arguments_are_explained(program, capsys, line):
    with pytest.raises(SystemExit) as end:
        program.nets.parse_arguments(line.split())
    assert end.value.code == 2
    assert ERRORS[line] in capsys.readouterr().err


def test_help_names_the_peers(program, capsys):
    with pytest.raises(SystemExit) as end:
        program.nets.parse_arguments(['--help'])
    assert end.value.code == 0
    text = ' '.join(capsys.readouterr().out.split())
    for word in ('ONNX Runtime', 'openvino', 'torch[-all]', 'h200'):
        assert word in text


def test_sides_and_presets(program):
    parse = program.nets.parse_arguments
    given = parse(['--sides', 'new=.,cl=.@opencl:0,torch-channels-last-graph,ort'])
    assert [(name, device) for name, _, device in given.sides] == [
        ('new', None), ('cl', 'opencl:0'), ('torch-channels-last-graph', None), ('ort', None)]
    assert given.sides[0][1] == os.getcwd() and given.sides[2][1] is None
    preset = parse(['--preset', 'h200', '--rounds', '9'])
    assert (preset.device, preset.rounds, preset.minutes) == ('cuda:0', 9, 5)
    assert len(preset.parts_of_run) == 6 and preset.sides[0][1] == ROOT
    part, = parse(['--preset', 'h200', '--parts', 'lenet-training']).parts_of_run
    assert part['work'] == 'train' and part['targets'][('lenet', 'float', 64)][0] == 0.1
    for part in preset.parts_of_run:  # every target belongs to a measurement
        measured = {(model, type_name, batch) for model in part['models']
                    for type_name in part['types'] for batch in part['batches']}
        assert set(part['targets']) <= measured


def test_the_command_of_a_report_names_no_folder(program):
    words = '--sides new=/x/y,old=/z@opencl:0,ort --json /x --output=/y --rounds 3 --peer-python p'
    assert program.nets.command_of(words.split()) == (
        'nets.py --sides new=FOLDER,old=FOLDER@opencl:0,ort --rounds 3')
    assert program.nets.command_of(['--sides=a=/x,torch']) == 'nets.py --sides=a=FOLDER,torch'


def run_program(tmp_path, *arguments, status=0):
    """What nets.py writes to its JSON file."""
    path = tmp_path / 'run.json'
    answer = subprocess.run(
        [sys.executable, os.path.join(BENCHMARK, 'nets.py'), '--threads', '1', '--rounds', '1',
         '--seconds', '0.001', '--json', str(path), *arguments], capture_output=True, text=True)
    assert answer.returncode == status, answer.stderr
    return json.loads(path.read_text()), answer.stdout


def test_a_tree_is_timed_alone(tmp_path):
    run, text = run_program(tmp_path, '--models', 'lenet', '--sides', 'cortado=' + TREE,
                            '--types', 'float,half')
    for case in run['cases']:
        side = case['sides']['cortado']
        assert len(side['milliseconds']) == 1 and side['milliseconds'][0] > 0 and side['mib'] > 1
        assert side['difference'] < (1e-5 if case['type'] == 'float' else 0.03)
    assert [line.split('|')[1:4] for line in text.splitlines() if line.startswith('| lenet')] == [
        [' lenet ', ' float ', ' 1 '], [' lenet ', ' half ', ' 1 ']]


def test_a_peer_that_fails_is_reported(tmp_path):
    run, text = run_program(tmp_path, '--models', 'lenet', '--sides', 'cortado=%s,ort' % TREE,
                            '--peer-python', '/bin/false', status=1)
    assert run['cases'][0]['sides']['ort']['failed']
    assert run['cases'][0]['sides']['cortado']['milliseconds']
    assert '* ort was left out (float): ort ended early, with status 1' in text


PACKAGES = {'torch': ['torch'], 'torch-channels-last': ['torch'], 'ort': ['onnx', 'onnxruntime'],
            'openvino': ['onnx', 'openvino']}


@pytest.fixture(scope='module')
def peers():
    """The sides whose packages the other interpreter has."""
    def has(package):
        code = 'import importlib.util as i, sys; sys.exit(i.find_spec(%r) is None)' % package
        return subprocess.run([PEER_PYTHON, '-c', code]).returncode == 0

    available = {package for package in {name for names in PACKAGES.values() for name in names}
                 if has(package)}
    return [side for side, packages in PACKAGES.items() if available.issuperset(packages)]


def test_peers_without_their_packages_are_skipped(tmp_path, peers):
    missing = [side for side in PACKAGES if side not in peers]
    if not missing:
        pytest.skip('%s has the packages of all peers' % PEER_PYTHON)
    run, text = run_program(tmp_path, '--models', 'lenet', '--peer-python', PEER_PYTHON,
                            '--sides', ','.join(['cortado=' + TREE] + missing))
    sides = run['cases'][0]['sides']
    assert sides['cortado']['milliseconds']
    for side in missing:
        assert sides[side]['skipped'].startswith('No module named')
        assert '* %s was left out (float): No module named' % side in text


@pytest.mark.parametrize('model', PARAMETERS)
def test_peers_compute_what_the_models_compute(tmp_path, program, peers, model):
    if not peers:
        pytest.skip('%s has no package of a peer' % PEER_PYTHON)
    run, _ = run_program(tmp_path, '--models', model, '--peer-python', PEER_PYTHON,
                         '--batches', '2', '--sides', ','.join(['cortado=' + TREE] + peers))
    case, = run['cases']
    assert not case['faults']
    for name in peers:
        assert case['sides'][name]['difference'] < program.report.TOLERANCES['float']
        assert case['sides'][name]['milliseconds']


@pytest.mark.parametrize('model', ['cifar10_quick', 'lenet'])
def test_pytorch_trains_as_we_do(tmp_path, program, peers, model):
    if 'torch' not in peers:
        pytest.skip('%s has no PyTorch' % PEER_PYTHON)
    run, _ = run_program(tmp_path, '--models', model, '--peer-python', PEER_PYTHON,
                         '--batches', '4', '--pass', 'train', '--sides', 'cortado=%s,torch' % TREE)
    case, = run['cases']
    assert not case['faults']
    losses = case['sides']['torch']['losses']
    assert losses[-1] < 0.9 * losses[0]
    np.testing.assert_allclose(losses, case['sides']['cortado']['losses'], rtol=1e-4)


def test_peers_compute_every_layer(tmp_path, program, peers):
    """The net above, in each package, in the process of that package."""
    if not peers:
        pytest.skip('%s has no package of a peer' % PEER_PYTHON)
    net = random_net(write(tmp_path, net_of_all_layers()))
    scale_down(net)
    net.blobs['data'].data[...] = program.ours.images((2, 4, 13, 11))
    output = net.forward()['prob']
    program.graph.save(*program.extract.extract(net), str(tmp_path / 'graph.npz'))
    for side in peers:
        task = dict(side=side, name=side, folder=None, work='forward', type='float', batch=2,
                    threads=1, device='cpu', graph=str(tmp_path / 'graph.npz'))
        answer = subprocess.run(
            [PEER_PYTHON, os.path.join(BENCHMARK, 'nets.py'), '--worker', json.dumps(task)],
            input='', capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        np.testing.assert_allclose(json.loads(answer.stdout)['output'], output, rtol=1e-3,
                                   atol=1e-5, err_msg=side)
