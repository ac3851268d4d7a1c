#!/usr/bin/env python3
"""Trains nets on CIFAR-10, quantizes them, and fine-tunes them in mode pseudo.

Two nets: a ResNet-20 with BatchNorm, and a net of depthwise convolutions as in MobileNet; with
--mnist also LeNet. Each is trained in float, calibrated to INT8 and INT16 in several ways, and
fine-tuned in mode pseudo. As a control the same fine-tuning is done in float. Prints a table in
Markdown: the test accuracy of each run, and its difference from the float net.

Training images of CIFAR-10 are padded by 4 pixels, cropped at random and mirrored. Rates fall
linearly to 0.
"""
import argparse
import gzip
import os
import sys
import time

from facts import commit, processor, write_report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, 'python'), os.path.join(ROOT, 'examples', 'cifar10')]

TEST_BATCH = 100
CALIBRATION_BATCHES = 5
# Batches with which caffe.quantize compares layers; accuracies are those of all test images.
COMPARED_BATCHES = 1
CALIBRATIONS = (
    ('INT8, min_max', dict(method='min_max')),
    ('INT8, auto', dict()),
    ('INT8, auto, biases', dict(bias_correction=True)),
    ('INT8, auto, biases, channels', dict(bias_correction=True, equalize=True)),
    ('INT8, auto, biases, adaround', dict(bias_correction=True, rounding='adaround')),
    ('INT8, auto, all three', dict(bias_correction=True, equalize=True, rounding='adaround')),
    ('INT16, auto', dict(type='int16')),
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', help='as of examples/cifar10/create_cifar10.py')
    parser.add_argument('--mnist', help='folder with the IDX files of MNIST, for LeNet')
    parser.add_argument('--device', default='cuda:0', help='cpu, cuda:0, opencl:0, …')
    parser.add_argument('--nets', nargs='*', choices=list(NETS),
                        help='default: those of the data that are given')
    parser.add_argument('--iterations', type=int, default=8000, help='of training in float')
    parser.add_argument('--tuning', type=int, help='iterations of fine-tuning (default: an eighth)')
    parser.add_argument('--batch', type=int, default=128)
    parser.add_argument('--width', type=float, default=1, help='factor of the numbers of channels')
    parser.add_argument('--images', type=int, default=10000, help='test images')
    parser.add_argument('--rate', type=float, default=0.1, help='of training; tuning begins at a tenth')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--scratch', default=os.path.join(ROOT, 'build', 'cifar10', 'quantization'))
    parser.add_argument('--output', help='a Markdown file to write')
    return parser.parse_args()


# ---- The nets. A function adds layers to a NetSpec and returns the blob of the scores.

def normalized(net, name, bottom, outputs, relu=True, **window):
    """Convolution, BatchNorm, Scale, and ReLU."""
    from caffe import layers as L
    net[name] = L.Convolution(bottom, num_output=outputs, bias_term=False,
                              weight_filler=dict(type='msra'), **window)
    net[name + '_bn'] = L.BatchNorm(net[name], moving_average_fraction=0.95)
    net[name + '_scale'] = L.Scale(net[name + '_bn'], bias_term=True, filler=dict(value=1))
    if relu:
        net[name + '_relu'] = L.ReLU(net[name + '_scale'], in_place=True)
        return net[name + '_relu']
    return net[name + '_scale']


def scores(net, bottom):
    from caffe import layers as L
    from caffe import params as P
    net.pool = L.Pooling(bottom, pool=P.Pooling.AVE, global_pooling=True)
    net.score = L.InnerProduct(net.pool, num_output=10, weight_filler=dict(type='xavier'))
    return net.score


def resnet20(net, width):
    from caffe import layers as L
    top = normalized(net, 'conv1', net.data, round(16 * width), kernel_size=3, pad=1)
    for stage in range(3):
        outputs = round(16 * width) * 2 ** stage
        for block in range(3):
            name = 'block%d%s' % (stage + 1, 'abc'[block])
            stride = 2 if stage > 0 and block == 0 else 1
            left = normalized(net, name + '_1', top, outputs, kernel_size=3, pad=1, stride=stride)
            left = normalized(net, name + '_2', left, outputs, relu=False, kernel_size=3, pad=1)
            if stride == 2:
                top = normalized(net, name + '_0', top, outputs, relu=False, kernel_size=1, stride=2)
            net[name] = L.Eltwise(top, left)
            net[name + '_relu'] = L.ReLU(net[name], in_place=True)
            top = net[name + '_relu']
    return scores(net, top)


def mobilenet(net, width):
    top = normalized(net, 'conv1', net.data, round(32 * width), kernel_size=3, pad=1)
    inputs = round(32 * width)
    for i, (outputs, stride) in enumerate(((64, 1), (128, 2), (128, 1), (256, 2), (256, 1),
                                           (512, 2), (512, 1))):
        top = normalized(net, 'depth%d' % (i + 1), top, inputs, kernel_size=3, pad=1, stride=stride,
                         group=inputs)
        inputs = round(outputs * width)
        top = normalized(net, 'point%d' % (i + 1), top, inputs, kernel_size=1)
    return scores(net, top)


def lenet(net, width):
    from caffe import layers as L
    from caffe import params as P
    filler = dict(type='xavier')
    top = net.data
    for i, outputs in ((1, 20), (2, 50)):
        top = net['conv%d' % i] = L.Convolution(top, num_output=round(outputs * width),
                                                kernel_size=5, weight_filler=filler)
        top = net['pool%d' % i] = L.Pooling(top, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    net.ip1 = L.InnerProduct(top, num_output=round(500 * width), weight_filler=filler)
    net.relu1 = L.ReLU(net.ip1, in_place=True)
    net.score = L.InnerProduct(net.relu1, num_output=10, weight_filler=filler)
    return net.score


NETS = {'resnet20': resnet20, 'mobilenet': mobilenet, 'lenet': lenet}


def make_net(name, shape, width, batch, loss):
    import caffe
    from caffe import layers as L
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[batch, *shape]))
    if loss:
        net.label = L.Input(shape=dict(dim=[batch]))
    top = NETS[name](net, width)
    if loss:
        net.loss = L.SoftmaxWithLoss(top, net.label)
    proto = net.to_proto()
    proto.name = name
    return proto


# ---- The data.

class Images:
    """Images, normalized by the mean and the deviation of each channel."""

    def prepare(self, train, test, seed):
        import numpy as np
        (self.train, self.train_labels), (self.test, self.test_labels) = train, test
        self.shape = self.train.shape[1:]
        self.mean = self.train.mean((0, 2, 3)).astype(np.float32).reshape(-1, 1, 1)
        self.deviation = self.train.std((0, 2, 3)).astype(np.float32).reshape(-1, 1, 1)
        self.random = np.random.default_rng(seed)
        self.order = np.zeros(0, np.int64)

    def normalized(self, images):
        return (images - self.mean) / self.deviation

    def augmented(self, images):
        return images

    def training_batch(self, count):
        if len(self.order) < count:
            self.order = self.random.permutation(len(self.train))
        chosen, self.order = self.order[:count], self.order[count:]
        return self.normalized(self.augmented(self.train[chosen])), self.train_labels[chosen]

    def test_batch(self, index):
        part = slice(index * TEST_BATCH, (index + 1) * TEST_BATCH)
        return self.normalized(self.test[part]), self.test_labels[part]

    def quantizing_batches(self):
        """Training images without changes for calibration, then test images."""
        for i in range(CALIBRATION_BATCHES):
            part = slice(i * TEST_BATCH, (i + 1) * TEST_BATCH)
            yield {'data': self.normalized(self.train[part])}, self.train_labels[part]
        for i in range(COMPARED_BATCHES):
            images, labels = self.test_batch(i)
            yield {'data': images}, labels


class Mnist(Images):
    def __init__(self, data, seed):
        import numpy as np

        def load(part):
            arrays = []
            for kind, header in (('images-idx3', 16), ('labels-idx1', 8)):
                with gzip.open(os.path.join(data, '%s-%s-ubyte.gz' % (part, kind))) as file:
                    arrays.append(np.frombuffer(file.read(), np.uint8, offset=header))
            return arrays[0].reshape(-1, 1, 28, 28), arrays[1].astype(np.int64)

        self.prepare(load('train'), load('t10k'), seed)


class Cifar10(Images):
    def __init__(self, data, scratch, seed):
        import create_cifar10
        import numpy as np
        folder = os.path.join(scratch, 'binary')
        if not os.path.exists(os.path.join(folder, create_cifar10.BATCHES[-1])):
            os.makedirs(folder, exist_ok=True)
            create_cifar10.unpack(data, folder)

        def load(names):
            records = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8)
                                      for name in names]).reshape(-1, 3073)
            return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)

        self.prepare(load(create_cifar10.BATCHES[:5]), load(create_cifar10.BATCHES[5:]), seed)

    def augmented(self, images):
        import numpy as np
        padded = np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4)))
        result = np.empty_like(images)
        offsets = self.random.integers((9, 9, 2), size=(len(images), 3))
        for target, image, (y, x, flip) in zip(result, padded, offsets):
            crop = image[:, y:y + 32, x:x + 32]
            target[...] = crop[:, :, ::-1] if flip else crop
        return result


# ---- The runs.

class Runs:
    def __init__(self, arguments, images, name):
        self.arguments, self.images, self.name = arguments, images, name
        self.rows = []

    def path(self, name):
        return os.path.join(self.arguments.scratch, '%s_%s' % (self.name, name))

    def accuracy(self, model, weights):
        """The percentage of right test images."""
        import caffe
        net = caffe.Net(model, caffe.TEST, weights=weights)
        right = 0
        for i in range(self.arguments.images // TEST_BATCH):
            data, labels = self.images.test_batch(i)
            right += (net.forward(data=data)['score'].argmax(1) == labels).sum()
        return 100.0 * right / (self.arguments.images // TEST_BATCH * TEST_BATCH)

    def deploy(self, data_type=0):
        proto = make_net(self.name, self.images.shape, self.arguments.width, TEST_BATCH,
                         loss=False)
        proto.data_type = data_type
        return proto

    def train(self, iterations, rate, weights=(), pseudo=False):
        """Trains from the weights of files; returns the solver's net and the seconds."""
        import caffe
        from caffe.proto import caffe_pb2
        solver = caffe.get_solver(caffe_pb2.SolverParameter(
            net_param=make_net(self.name, self.images.shape, self.arguments.width,
                               self.arguments.batch, loss=True),
            type='SGD', base_lr=rate, momentum=0.9, weight_decay=5e-4, lr_policy='poly', power=1,
            max_iter=iterations, random_seed=self.arguments.seed))
        for path in weights:
            solver.net.copy_from(path)
        if pseudo:
            solver.net.quant_mode = 'pseudo'
        begin = time.perf_counter()
        for iteration in range(iterations):
            data, labels = self.images.training_batch(self.arguments.batch)
            solver.net.blobs['data'].data[...] = data
            solver.net.blobs['label'].data[...] = labels
            loss = solver.step(1)
            if (iteration + 1) % 500 == 0:
                print('%s: iteration %d of %d, loss %.3f' % (self.name, iteration + 1, iterations, loss),
                      file=sys.stderr, flush=True)
        return solver.net, time.perf_counter() - begin

    def add(self, run, accuracy, seconds):
        difference = '' if not self.rows else '%+.2f' % (accuracy - self.rows[0][1])
        self.rows.append((run, accuracy, difference, seconds))
        print('%s: %s: %.2f %% %s (%.1f s)' % (self.name, run, accuracy, difference, seconds),
              file=sys.stderr, flush=True)
        return accuracy

    def calibrate(self, weights, run, settings, end):
        import caffe
        out = self.path(end)
        begin = time.perf_counter()
        caffe.quantize((self.deploy(), weights), list(self.images.quantizing_batches()), out=out,
                       calibrate=CALIBRATION_BATCHES, **settings)
        seconds = time.perf_counter() - begin
        return self.add(run, self.accuracy(out + '.prototxt', out + '.caffemodel'), seconds)

    def run(self):
        from caffe.proto import caffe_pb2
        arguments = self.arguments
        tuning = arguments.tuning or max(arguments.iterations // 8, 1)
        trained, tuned, control = (self.path(end + '.caffemodel')
                                   for end in ('float', 'pseudo', 'control'))
        net, seconds = self.train(arguments.iterations, arguments.rate)
        net.save(trained)
        exact = self.add('FP32', self.accuracy(self.deploy(), trained), seconds)
        found = [self.calibrate(trained, run, settings, 'calibrated_%d' % i)
                 for i, (run, settings) in enumerate(CALIBRATIONS)]
        # The ranges of the calibrated file, and the float weights.
        rate = arguments.rate / 10
        net, seconds = self.train(tuning, rate, (self.path('calibrated_1.caffemodel'), trained), True)
        net.save(tuned)
        best = self.add('INT8 after %d iterations in mode pseudo' % tuning,
                        self.accuracy(self.deploy(caffe_pb2.CAFFE_INT8_QUANTIZED), tuned), seconds)
        self.calibrate(tuned, 'the same, calibrated again (auto, biases)',
                       dict(bias_correction=True), 'calibrated_again')
        net, seconds = self.train(tuning, rate, (trained,))
        net.save(control)
        self.add('FP32 after %d iterations in float' % tuning,
                 self.accuracy(self.deploy(), control), seconds)
        self.calibrate(control, 'that in INT8, auto, biases', dict(bias_correction=True),
                       'calibrated_control')
        lost = exact - found[1]
        # A share of less than 0.05 points says nothing.
        share = ', %.0f %% of that' % (100 * (best - found[1]) / lost) if lost >= 0.05 else ''
        return ('INT8 (auto) is %.2f points %s FP32 after calibration. Fine-tuning in mode pseudo wins %.2f '
                'points%s.' % (abs(lost), 'below' if lost >= 0 else 'above', best - found[1], share))


def report(arguments, runs):
    lines = ['# Trained nets in INT8 and INT16: calibration and fine-tuning', '',
             '* %s; commit %s' % (time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime()), commit()),
             '* Host: %s; device %s' % (processor(), arguments.device),
             '* %d iterations of %d images, from rate %g; test accuracy of %d images, one of them is '
             '%.2f points' % (arguments.iterations, arguments.batch, arguments.rate, arguments.images,
                              100 / arguments.images),
             '* Calibration with %d training images; *s* is the time of training, or of calibrating and '
             'comparing' % (CALIBRATION_BATCHES * TEST_BATCH), '']
    for one, summary in runs:
        lines += ['## %s' % one.name, '', '| run | accuracy | difference | s |', '|---|---:|---:|---:|']
        lines += ['| %s | %.2f %% | %s | %.1f |' % row for row in one.rows]
        lines += ['', summary, '']
    return '\n'.join(lines)


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.scratch, exist_ok=True)
    import caffe
    caffe.set_logging_disabled(True)
    caffe.set_device(arguments.device)
    sets = {}
    if arguments.data:
        sets['cifar10'] = Cifar10(arguments.data, arguments.scratch, arguments.seed)
    if arguments.mnist:
        sets['mnist'] = Mnist(arguments.mnist, arguments.seed)
    runs = []
    for name in arguments.nets or NETS:
        images = sets.get('mnist' if name == 'lenet' else 'cifar10')
        if not images:
            if arguments.nets:
                sys.exit('%s needs --%s' % (name, 'mnist' if name == 'lenet' else 'data'))
            continue
        one = Runs(arguments, images, name)
        runs.append((one, one.run()))
    write_report(report(arguments, runs), arguments.output)


if __name__ == '__main__':
    main()
