#!/usr/bin/env python3
"""Quantizes SqueezeNet and compares it with the float net on 500 images of ImageNet.

Every fifth image is for calibration (100), the others are classified (400). Prints a row of a
table for each run. --parts quantizes parts of the net in mode pseudo instead: all weights, all
blobs, and each blob and each layer's weights alone. With --export, nets of other libraries can be
calibrated with the same images:
--onnxruntime FILE, in a Python that has onnx and onnxruntime, reads that file; if it has OpenVINO,
that runs the same files, and with NNCF it quantizes the float net itself.
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'python'), os.path.join(ROOT, 'examples', 'squeezenet')]

BATCH = 20
RUNS = {
    'int8, min_max': dict(method='min_max'),
    'int8, percentile': dict(method='percentile'),
    'int8, mse': dict(method='mse'),
    'int8, kl': dict(method='kl'),
    'int8, auto': dict(),
    'int8, auto, biases': dict(bias_correction=True),
    'int8, auto, biases, channels': dict(bias_correction=True, equalize=True),
    'int8, auto, biases, adaround': dict(bias_correction=True, rounding='adaround'),
    'int8, auto, biases, adaround, tuned': dict(bias_correction=True, rounding='adaround',
                                                tune_ranges=True),
    'int8, auto, all three': dict(bias_correction=True, equalize=True, rounding='adaround'),
    'int8, auto, all three, tuned': dict(bias_correction=True, equalize=True, rounding='adaround',
                                         tune_ranges=True),
    'int16, auto': dict(type='int16'),
    'half': dict(type='half'),
    'bfloat16': dict(type='bfloat16'),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', nargs='?', help='folder with squeezenet/ and imagenet-sample/')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--runs', nargs='*', choices=list(RUNS), default=list(RUNS))
    parser.add_argument('--max_drop', type=float, metavar='POINTS',
                        help='instead: widen layers until so much agreement is lost')
    parser.add_argument('--held_out', type=int, default=-1, metavar='BATCHES',
                        help='batches to compare on (default: all 20)')
    parser.add_argument('--parts', metavar='PREFIX',
                        help='instead: the noise of parts of the net; writes PREFIX.caffemodel')
    parser.add_argument('--export', metavar='FILE.npz',
                        help='write net and images for --onnxruntime')
    parser.add_argument('--onnxruntime', metavar='FILE.npz', help='quantize by ONNX Runtime')
    return parser.parse_args()


def load(data):
    """The net, its weights, and all images and labels, those for calibration first."""
    import evaluate
    import numpy as np
    from caffe.proto import caffe_pb2
    from google.protobuf import text_format
    folder = os.path.join(data, 'squeezenet')
    with open(os.path.join(folder, 'deploy.prototxt')) as file:
        model = text_format.Parse(file.read(), caffe_pb2.NetParameter())
    model.input_dim[0] = BATCH
    rows = evaluate.read_list(data)
    rows = rows[::5] + [row for i, row in enumerate(rows) if i % 5]
    images = np.stack([evaluate.load_image(path) for path, _ in rows])
    weights = os.path.join(folder, 'squeezenet_v1.0.caffemodel')
    return model, weights, images, np.array([label for _, label in rows])


def print_row(name, report):
    items = report['held_out_items']
    (scores,) = [row for row in report['layers'] if row['blob'] == report['scores']]
    right = ['%d' % round(report[key] * items / 100) if report[key] is not None else '-'
             for key in ('float_top1', 'quantized_top1')]
    print('| %s | %s | %s | %.2f %% | %.1f dB | %.3f | %d |' % (
        name, *right, report['agreement'], scores['snr'],
        report['bytes'] / report['float_bytes'], len(report['wider'])), flush=True)


def scores_of(net, images):
    import numpy as np
    # The next forward overwrites the array that forward returns.
    return np.concatenate([np.array(net.forward(blobs=['pool_final'], data=images[i:i + BATCH])[
        'pool_final']).reshape(BATCH, -1) for i in range(0, len(images), BATCH)])


def decibels(exact, found):
    import numpy as np
    return 10 * np.log10((exact ** 2).sum() / max(((found - exact) ** 2).sum(), 1e-30))


def run_and_classify(name, source, batches, images, labels, exact):
    """Calibrates, compares layers on one batch, and classifies the images with the written net."""
    import caffe
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'net')
        report = caffe.quantize(source, batches, out=out, calibrate=100 // BATCH, held_out=1,
                                **RUNS[name])
        found = scores_of(caffe.Net(out + '.prototxt', caffe.TEST, weights=out + '.caffemodel'),
                          images)
    classes = found.argmax(axis=1)
    print('| %s | %d | %d | %.2f %% | %.1f dB | %.3f | - |' % (
        name, (exact.argmax(axis=1) == labels).sum(), (classes == labels).sum(),
        100 * (classes == exact.argmax(axis=1)).mean(), decibels(exact, found),
        report['bytes'] / report['float_bytes']), flush=True)


def run_parts(arguments, model, weights, images, batches, common):
    """The noise that quantized parts make in the scores, with the ranges of method auto."""
    import caffe
    caffe.quantize((model, weights), batches, out=arguments.parts, **dict(common, held_out=1))
    net = caffe.Net(model, caffe.TEST, weights=arguments.parts + '.caffemodel')
    net.copy_from(weights)  # the ranges stay
    end = len(images) if arguments.held_out < 0 else 100 + BATCH * arguments.held_out

    images = images[100:end]
    exact = scores_of(net, images)
    names = list(net.quantizers)
    of_weights = [name for name in names if name.endswith('_blobs_0_quant')]
    blobs = [name for name in names if name not in of_weights]
    print('| in codes of 8 bits | scores | same class |')
    print('|---|---:|---:|')
    for title, part in [('all', names), ('all weights', of_weights), ('all blobs', blobs),
                        *((name, [name]) for name in names)]:
        net.quant_mode = 'passive'
        for name in part:
            net.quantizers[name].mode = 'pseudo'
        found = scores_of(net, images)
        if decibels(exact, found) > 90:
            continue  # not rounded on its own
        print('| %s | %.1f dB | %.1f %% |' % (
            title, decibels(exact, found),
            100 * (found.argmax(1) == exact.argmax(1)).mean()), flush=True)


def run_ours(arguments):
    import caffe
    caffe.set_logging_disabled(True)
    caffe.set_device(arguments.device)
    model, weights, images, labels = load(arguments.data)
    if arguments.export:
        import numpy as np
        from peers import extract, graph
        net = caffe.Net(model, caffe.TEST, weights=weights)
        graph.save(*extract.extract(net), arguments.export)
        np.savez(arguments.export + '.images.npz', images=images, labels=labels)
        return
    batches = [({'data': images[i:i + BATCH]}, labels[i:i + BATCH])
               for i in range(0, len(images), BATCH)]
    common = dict(calibrate=100 // BATCH, held_out=arguments.held_out)
    if arguments.parts:
        run_parts(arguments, model, weights, images, [batch for batch, _ in batches], common)
        return
    print('| run | float right | right | same class | scores | bytes | wider layers |')
    print('|---|---:|---:|---:|---:|---:|---:|')
    if arguments.max_drop is not None:
        report = caffe.quantize((model, weights), [batch for batch, _ in batches],
                                max_drop=arguments.max_drop, bias_correction=True, **common)
        print_row('int8, at most %g points' % arguments.max_drop, report)
        print(report['wider'])
        return
    end = len(images) if arguments.held_out < 0 else 100 + BATCH * arguments.held_out
    held, answers = images[100:end], labels[100:end]
    exact = scores_of(caffe.Net(model, caffe.TEST, weights=weights), held)
    for name in arguments.runs:
        run_and_classify(name, (model, weights), batches, held, answers, exact)


def classify_in_openvino(net, images, model):
    """The classes of the images that are not for calibration."""
    import numpy as np
    import openvino
    # Without it, what is not quantized is in bfloat16 where the processor has products of it.
    compiled = openvino.Core().compile_model(model, 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    found = [next(iter(compiled({net.input: images[i:i + BATCH]}).values())).reshape(BATCH, -1)
             for i in range(100, len(images), BATCH)]
    return np.concatenate(found).argmax(axis=1)


def run_nncf(net, images, labels, source):
    """OpenVINO with the calibration of NNCF, which is another package."""
    try:
        import nncf
    except ImportError:
        print('without NNCF, OpenVINO has no calibration of its own')
        return
    import openvino
    exact = classify_in_openvino(net, images, source)
    print('OpenVINO %s, float: %d right' % (
        openvino.__version__.split('-')[0], (exact == labels).sum()))
    batches = [{net.input: images[i:i + BATCH]} for i in range(0, 100, BATCH)]
    for name, options in {
            'as it is': {},
            'mixed, accurate biases': dict(preset=nncf.QuantizationPreset.MIXED,
                                           fast_bias_correction=False)}.items():
        quantized = nncf.quantize(openvino.Core().read_model(source), nncf.Dataset(batches),
                                  subset_size=len(batches), **options)
        found = classify_in_openvino(net, images, quantized)
        print('NNCF %s, %s: %d right, same class %.2f %%' % (
            nncf.__version__, name, (found == labels).sum(), 100 * (found == exact).mean()),
            flush=True)


def run_onnxruntime(path):
    import numpy as np
    import onnx
    import onnxruntime
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process
    from peers import graph, onnx_model
    net, arrays = graph.load(path)
    with np.load(path + '.images.npz') as file:
        images, labels = file['images'], file['labels'][100:]
    source, prepared, target = (path + end for end in ('.onnx', '.prepared.onnx', '.int8.onnx'))
    onnx.save(onnx_model.make_model(net, arrays), source)
    quant_pre_process(source, prepared, skip_symbolic_shape=True)

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.batches = iter(images[i:i + BATCH] for i in range(0, 100, BATCH))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {net.input: batch}

    def classify(model):
        session = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider'])
        found = [session.run(None, {net.input: images[i:i + BATCH]})[0].reshape(BATCH, -1)
                 for i in range(100, len(images), BATCH)]
        return np.concatenate(found).argmax(axis=1)

    try:
        import openvino
    except ImportError:
        openvino = None

    exact = classify(source)
    print('ONNX Runtime %s, float: %d right' % (onnxruntime.__version__, (exact == labels).sum()))
    for method in ('MinMax', 'Percentile', 'Entropy'):
        q.quantize_static(prepared, target, Reader(), quant_format=q.QuantFormat.QDQ,
                          per_channel=True, activation_type=q.QuantType.QUInt8,
                          weight_type=q.QuantType.QInt8,
                          calibrate_method=q.CalibrationMethod[method])
        found = classify(target)
        print('%s: %d right, same class %.2f %%' % (
            method, (found == labels).sum(), 100 * (found == exact).mean()), flush=True)
        if openvino:
            found = classify_in_openvino(net, images, target)
            print('%s, run by OpenVINO %s: %d right, same class %.2f %%' % (
                method, openvino.__version__.split('-')[0], (found == labels).sum(),
                100 * (found == exact).mean()), flush=True)
    if openvino:
        run_nncf(net, images, labels, source)


def main():
    arguments = parse_arguments()
    if arguments.onnxruntime:
        run_onnxruntime(arguments.onnxruntime)
    elif arguments.data:
        run_ours(arguments)
    else:
        sys.exit('give the folder of the data, or --onnxruntime FILE')


if __name__ == '__main__':
    main()
