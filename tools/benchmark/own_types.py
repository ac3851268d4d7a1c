#!/usr/bin/env python3
"""Nets in fp8, posit8, float10 and float24.

--accuracy DATA classifies images of ImageNet by SqueezeNet in every type. --speed times nets of
models/ in fp8_e4m3: as they are, whose kernels convert many elements at a time, and the float net
with every element converted by itself after each layer. --whole times LeNet and SqueezeNet in types of one,
two and four bytes, in turns with float. --casts counts the casts of these nets in two types.
--memory compares the memory of nets whose products alone are in a type with that of the same nets
with a Quantizer layer before and behind each product, as without the passes that move and leave out
casts. Without an option: --speed and --casts. float24 is a float without its lowest 8 bits.
"""
import argparse
import datetime
import os
import re
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'python'), os.path.join(ROOT, 'examples', 'squeezenet')]

from facts import commit, processor, write_report  # noqa: E402

NETS = ('lenet/lenet', 'squeezenet/deploy', 'alexnet/deploy', 'googlenet/deploy',
        'mobilenet_v1/deploy', 'resnet50/deploy')
TYPES = ('float', 'half', 'bfloat16', 'float10', 'fp8_e4m3', 'fp8_e5m2', 'posit8')
TYPE = 'fp8_e4m3'
WHOLE_NETS = ('lenet/lenet', 'squeezenet/deploy')
WHOLE_TYPES = ('float', 'fp8_e4m3', 'float10', 'float24')
BATCHES = (1, 10)
SCALES = (1, 1 / 16)
SCALED = ('fp8_e4m3', 'fp8_e5m2', 'posit8')
ROUNDS = 5
WEIGHTED = ('Convolution', 'InnerProduct')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--accuracy', metavar='DATA',
                        help='folder with squeezenet/ and imagenet-sample/')
    parser.add_argument('--images', type=int, default=400, help='how many images (default: 400)')
    parser.add_argument('--types', nargs='*', default=TYPES)
    parser.add_argument('--speed', action='store_true')
    parser.add_argument('--whole', action='store_true')
    parser.add_argument('--rounds', type=int, default=15, help='of --whole (default: 15)')
    parser.add_argument('--casts', action='store_true')
    parser.add_argument('--memory', action='store_true')
    parser.add_argument('--nets', nargs='*', default=NETS)
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--out', metavar='FILE', help='write the report to this file, too')
    return parser.parse_args()


def scores(net, images):
    """The average of the last convolution: what the softmax reads, without its rounding."""
    import numpy as np
    batch = np.zeros(net.blobs['data'].shape, np.float32)
    batch[:len(images)] = images
    net.forward(data=batch)
    return net.blobs['pool_final'].float_data.reshape(len(batch), -1)[:len(images)].copy()


def megabytes(model, weights, data_type):
    """The MiB of a caffemodel with the weights in the type."""
    import caffe
    if data_type == 'float':
        return os.path.getsize(weights) / 2 ** 20
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'rounded')
        caffe.transform((model, weights), passes=['round'], type=data_type, out=out)
        return os.path.getsize(out + '.caffemodel') / 2 ** 20


def accuracy(arguments):
    """Rows of a table: images right, and with the class of the float net."""
    import numpy as np
    import caffe
    from caffe.proto import caffe_pb2
    import evaluate
    from google.protobuf import text_format
    folder = os.path.join(arguments.accuracy, 'squeezenet')
    with open(os.path.join(folder, 'deploy.prototxt')) as file:
        model = text_format.Parse(file.read(), caffe_pb2.NetParameter())
    model.input_dim[0] = 20
    rows = [row for i, row in enumerate(evaluate.read_list(arguments.accuracy)) if i % 5]
    rows = rows[:arguments.images]
    images = np.stack([evaluate.load_image(path) for path, _ in rows])
    labels = np.array([label for _, label in rows])
    weights = os.path.join(folder, 'squeezenet_v1.0.caffemodel')
    lines = ['| type | right of %d | same class as float | MiB of weights |' % len(rows),
             '|---|---:|---:|---:|']
    exact = None
    for name in dict.fromkeys(['float', *arguments.types]):
        size = megabytes(os.path.join(folder, 'deploy.prototxt'), weights, name)
        for scale in SCALES if name in SCALED else (1,):
            model.data_type_name = name
            net = caffe.Net(model, caffe.TEST, weights=weights)
            # Every layer is homogeneous: with scaled images and biases all activations are scaled.
            for parameters in net.params.values():
                parameters[1].data[...] *= scale
            found = np.concatenate([scores(net, scale * images[i:i + 20])
                                    for i in range(0, len(images), 20)]).argmax(axis=1)
            exact = found if exact is None else exact
            title = name if scale == 1 else '%s, activations / %d' % (name, 1 / scale)
            lines.append('| %s | %d | %.2f %% | %.2f |' % (
                title, (found == labels).sum(), 100 * (found == exact).mean(), size))
    return lines


def read(name, batch=1):
    import caffe
    net = caffe.io.read_net(os.path.join(ROOT, 'models', name + '.prototxt'))
    for layer in net.layer:
        if layer.type == 'Input':
            layer.input_param.shape[0].dim[0] = batch
    return net


def best(call):
    call()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def fill(net):
    import numpy as np
    values = np.random.RandomState(1).uniform(-1, 1, net.blobs[net.inputs[0]].shape)
    net.blobs[net.inputs[0]].float_data = values


def scalar_pass(net):
    """A forward in float; each top is converted to codes and back, one element after the other."""
    from caffe import _caffe
    for name in net._layer_names:
        net.forward(start=name, end=name)
        for top in net.top_names[name]:
            view = net.blobs[top].data
            view[...] = _caffe._values_of_codes(TYPE, _caffe._codes_of_values(TYPE, view))


def speed(arguments):
    import caffe
    lines = ['| net | float | %s | float, converted by elements | ratio |' % TYPE,
             '|---|---:|---:|---:|---:|']
    for name in arguments.nets:
        model = read(name)
        caffe.set_random_seed(1)
        wide = caffe.Net(model, caffe.TEST)
        model.data_type_name = TYPE
        caffe.set_random_seed(1)
        narrow = caffe.Net(model, caffe.TEST)
        fill(wide)
        fill(narrow)
        times = [best(wide.forward), best(narrow.forward), best(lambda: scalar_pass(wide))]
        lines.append('| %s | %.2f ms | %.2f ms | %.2f ms | %.1f |' % (
            name.split('/')[0], *times, times[2] / times[1]))
    return lines


def whole(arguments):
    """Medians of forwards of whole nets. The types take turns, and so do the casts of a net whose
    layers besides products are float."""
    import caffe
    kinds = [*[(name, None) for name in WHOLE_TYPES],
             *[(name, narrow_products) for name in WHOLE_TYPES[1:]]]
    lines = ['| net | batch | type | median | as float |', '|---|---:|---|---:|---:|']
    for name in WHOLE_NETS:
        for batch in BATCHES:
            nets = []
            for data_type, change in kinds:
                model = read(name, batch)
                if change:
                    change(model, data_type)
                else:
                    model.data_type_name = data_type
                caffe.set_random_seed(1)
                nets.append(caffe.Net(model, caffe.TEST))
                fill(nets[-1])
                nets[-1].forward()
            times = [[] for _ in nets]
            for _ in range(arguments.rounds):
                for net, found in zip(nets, times):
                    start = time.perf_counter()
                    net.forward()
                    found.append(1000 * (time.perf_counter() - start))
            for (data_type, change), found in zip(kinds, times):
                ratio = statistics.median(mine / wide for mine, wide in zip(found, times[0]))
                lines.append('| %s | %d | %s%s | %.2f ms | %.2f |' % (
                    name.split('/')[0], batch, data_type, ', products only' if change else '',
                    statistics.median(found), ratio))
    return lines


def conversions():
    """Elements per second of a Quantizer layer, and of a loop over elements."""
    import numpy as np
    import caffe
    from caffe import _caffe
    from caffe.proto import caffe_pb2
    count = 1 << 22
    lines = ['| conversion of %d elements | G/s |' % count, '|---|---:|']
    values = np.random.RandomState(1).normal(size=count).astype(np.float32)
    codes = _caffe._codes_of_values(TYPE, values)
    for source, target in (('float', TYPE), (TYPE, 'float')):
        text = caffe_pb2.NetParameter()
        layer = text.layer.add(name='x', type='Input', top=['x'], top_data_type_name=source)
        layer.input_param.shape.add(dim=[count])
        text.layer.add(name='y', type='Quantizer', bottom=['x'], top=['y'],
                       bottom_data_type_name=source, top_data_type_name=target)
        net = caffe.Net(text, caffe.TEST)
        net.blobs['x'].float_data = values
        lines.append('| %s to %s, kernel | %.2f |' % (source, target,
                                                      count / best(net.forward) / 1e6))
        loop = ((lambda: _caffe._codes_of_values(TYPE, values)) if source == 'float'
                else (lambda: _caffe._values_of_codes(TYPE, codes)))
        lines.append('| %s to %s, by elements | %.2f |' % (source, target,
                                                           count / best(loop) / 1e6))
    return lines


def log_of(make):
    """What the library logs while it makes a net."""
    import caffe
    with tempfile.TemporaryFile() as file:
        error = os.dup(2)
        os.dup2(file.fileno(), 2)
        caffe.set_logging_disabled(False)
        try:
            make()
        finally:
            caffe.set_logging_disabled(True)
            os.dup2(error, 2)
            os.close(error)
        file.seek(0)
        return file.read().decode()


def wide_ends(model):
    """The narrow type everywhere but in the first and last layers with weights."""
    model.data_type_name = TYPE
    weighted = [layer for layer in model.layer if layer.type in WEIGHTED]
    wide = [layer for layer in model.layer if layer.type == 'Input']
    for layer in [*wide, weighted[0], weighted[-1]]:
        layer.compute_data_type_name = 'float'


def narrow_products(model, data_type=TYPE):
    """Float everywhere but in the layers with weights, which compute in the narrow type."""
    for layer in model.layer:
        if layer.type in WEIGHTED:
            layer.compute_data_type_name = data_type
            layer.top_data_type_name = 'float'


def casts(arguments):
    import caffe
    lines = ['| net | float | casts before | casts | moved to fewer elements |',
             '|---|---|---:|---:|---:|']
    for name in arguments.nets:
        for what, change in (('first and last layer', wide_ends),
                             ('all but products', narrow_products)):
            model = read(name)
            change(model)
            log = log_of(lambda: caffe.Net(model, caffe.TEST))
            found = re.search(r'Casts between types: (\d+); (\d+) more .* and (\d+) moved', log)
            left, omitted, moved = (int(number) for number in found.groups())
            lines.append('| %s | %s | %d | %d | %d |' % (
                name.split('/')[0], what, left + omitted, left, moved))
    return lines


def quantizers_around_products(model):
    """The net of narrow_products with the casts as layers."""
    from caffe.proto import caffe_pb2
    layers = list(model.layer)
    del model.layer[:]
    for layer in layers:
        if layer.type not in WEIGHTED:
            model.layer.append(layer)
            continue
        for blob, before in ((layer.bottom[0], True), (layer.top[0], False)):
            inner = '%s_%s' % (layer.name, 'in' if before else 'out')
            source, target = (blob, inner) if before else (inner, blob)
            types = ('float', TYPE) if before else (TYPE, 'float')
            cast = caffe_pb2.LayerParameter(
                name=inner + '_cast', type='Quantizer', bottom=[source], top=[target],
                bottom_data_type_name=types[0], top_data_type_name=types[1])
            if before:
                model.layer.append(cast)
                layer.bottom[0] = inner
            else:
                layer.top[0] = inner
                layer.compute_data_type_name = TYPE
                model.layer.append(layer)
                model.layer.append(cast)


def memory(arguments):
    """MiB of activations, workspaces and weights in phase TEST."""
    import caffe
    lines = ['| net | batch | casts as layers | casts | ratio |', '|---|---:|---:|---:|---:|']
    for name in arguments.nets:
        for batch in BATCHES:
            needs = []
            for change in (quantizers_around_products, narrow_products):
                model = read(name, batch)
                change(model)
                net = caffe.Net(model, caffe.TEST)
                fill(net)
                net.forward()
                needs.append(net.memory['total'] / 2 ** 20)
            lines.append('| %s | %d | %.1f | %.1f | %.2f |' % (
                name.split('/')[0], batch, *needs, needs[0] / needs[1]))
    return lines


def main():
    arguments = parse_arguments()
    import caffe
    caffe.set_logging_disabled(True)
    caffe.set_device(arguments.device)
    caffe.register_type('float24', 24, 'small_float_value(code, 8, 15, 1)',
                        'small_float_code(v, 8, 15, 1)')
    both = not any((arguments.accuracy, arguments.speed, arguments.whole, arguments.casts,
                    arguments.memory))
    lines = ['%s, %s, %d processors, %s at %s' % (
        datetime.date.today(), processor(), os.cpu_count(), caffe.device().name, commit()), '']
    if arguments.accuracy:
        lines += accuracy(arguments) + ['']
    if arguments.speed or both:
        lines += speed(arguments) + [''] + conversions() + ['']
    if arguments.whole:
        lines += whole(arguments) + ['']
    if arguments.casts or both:
        lines += casts(arguments) + ['']
    if arguments.memory:
        lines += memory(arguments) + ['']
    write_report('\n'.join(lines), arguments.out)


if __name__ == '__main__':
    main()
