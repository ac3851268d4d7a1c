"""A built tree of Cortado as a side, and the process that converts a model for the others."""
import os
import re
import sys
import tempfile

from facts import commit
from peers.settings import (CHECKED_ITEMS, CHECKED_LOSSES, DECAY, DIFF, MOMENTUM, RATE, Skip,
                            images, labels)

TYPES = {'float': 'CAFFE_FLOAT', 'half': 'CAFFE_HALF', 'bfloat16': 'CAFFE_BFLOAT16',
         'int16': 'CAFFE_INT16_QUANTIZED', 'int8': 'CAFFE_INT8_QUANTIZED'}
SCORE_DEVIATION = 2  # of the random nets' scores, so that probabilities differ


def import_caffe(folder):
    sys.path.insert(0, os.path.join(folder, 'python'))
    os.environ.setdefault('CAFFE_LOG', 'warning')
    import caffe
    return caffe


def prototxt(path, type_name, batch):
    """The net of a model for one batch size and type."""
    with open(path) as file:
        text = re.sub(r'dim: \d+', 'dim: %d' % batch, file.read(), count=1)
    text = re.sub(r'((?:gating|expert)_net \{)', r'\1 data_type: %s' % TYPES[type_name], text)
    return 'data_type: %s\n%s' % (TYPES[type_name], text)


def make_net(caffe, text, phase):
    with tempfile.NamedTemporaryFile('w', suffix='.prototxt') as file:
        file.write(text)
        file.flush()
        return caffe.Net(file.name, phase)


# --- Conversion -----------------------------------------------------------------------------------

def fill(net):
    """Random weights with which every layer matters to the output."""
    import numpy as np
    random = np.random.RandomState(1)
    last = None
    for name, layer in zip(net._layer_names, net.layers):
        for i, blob in enumerate(layer.blobs):
            if layer.type == 'BatchNorm':
                mean, spread = ((0, 0.1), (1, 0.1), (1, 0))[i]
                values = mean + spread * random.standard_normal(blob.shape)
            elif layer.type == 'Scale':
                values = 1 - i + 0.1 * random.standard_normal(blob.shape)
            elif i == 0 or (layer.type == 'MOE' and len(blob.shape) > 1):
                fan_in = max(1, blob.count // blob.shape[0])
                values = random.standard_normal(blob.shape) * np.sqrt(2 / fan_in)
                last = layer
            else:
                values = 0.1 * random.standard_normal(blob.shape)
            blob.data[...] = values
    if last is None or net.layers[-1].type != 'Softmax':
        return
    net.forward()
    scores = net.blobs[net.bottom_names[net._layer_names[-1]][0]].data
    factor = SCORE_DEVIATION / max(1e-6, float(np.std(scores)))
    for blob in last.blobs:
        blob.data[...] *= factor


def convert(task):
    """Writes graph and weights of a model; returns what its output in float is."""
    caffe = import_caffe(task['folder'])
    from peers import extract, graph
    caffe.set_device('cpu')
    net = make_net(caffe, prototxt(task['path'], 'float', CHECKED_ITEMS), caffe.TEST)
    net.blobs[net.inputs[0]].data[...] = images(net.blobs[net.inputs[0]].shape)
    fill(net)
    converted, arrays = extract.extract(net)
    graph.save(converted, arrays, task['graph'])
    weights = {'%s %d' % (name, i): blob.data for name, blobs in net.params.items()
               for i, blob in enumerate(blobs)}
    import numpy as np
    np.savez(task['weights'], **weights)
    output = net.forward()[net.outputs[0]]
    return dict(output=output.reshape(len(output), -1).tolist(), dropout=converted.has_dropout())


# --- A side ---------------------------------------------------------------------------------------

def training_net(text, dropout=True):
    """The net with labels, and a loss instead of the Softmax at its end; without Dropout if asked.
    """
    from caffe.proto import caffe_pb2
    from google.protobuf import text_format
    net = text_format.Parse(text, caffe_pb2.NetParameter())
    softmax, batch = net.layer[-1], net.layer[0].input_param.shape[0].dim[0]
    if softmax.type != 'Softmax':
        raise ValueError('%s does not end with a Softmax' % net.name)
    softmax.type = 'SoftmaxWithLoss'
    softmax.bottom.append('label')
    softmax.top[0] = 'loss'
    if not dropout:
        kept = [layer for layer in net.layer if layer.type != 'Dropout']
        renamed = {}
        for layer in net.layer:
            if layer.type == 'Dropout':
                renamed[layer.top[0]] = renamed.get(layer.bottom[0], layer.bottom[0])
        for layer in kept:
            layer.bottom[:] = [renamed.get(bottom, bottom) for bottom in layer.bottom]
        del net.layer[:]
        net.layer.extend(kept)
    net.layer[0].top.append('label')
    net.layer[0].input_param.shape.add().dim.append(batch)
    return net


def recompute_blocks(net):
    """Marks what lies between the outputs of blocks: sums, layers in place on them, and pooling."""
    outputs = set()
    for layer in net.layer:
        in_place = list(layer.bottom) == list(layer.top)
        if layer.type in ('Eltwise', 'Pooling') or in_place and layer.top[0] in outputs:
            outputs.update(layer.top)
        elif layer.type in ('Convolution', 'BatchNorm', 'Scale', 'ReLU', 'Concat', 'LRN'):
            layer.recompute = True


class Ours:
    """One net in one tree. step(n) runs n passes and waits for the device."""

    def __init__(self, task):
        self.caffe = caffe = import_caffe(task['folder'])
        caffe.set_device(task['device'])
        self.device = caffe.device()
        self.task = task
        self.facts = dict(device=self.device.description, versions={
            'Cortado in %s' % task['name']: '%s (%s)' % (caffe.__version__,
                                                        commit(task['folder']))})
        if self.device.is_gpu:
            self.facts['versions']['driver'] = self.device.driver
        if task['type'].startswith('int') and task['work'] != 'forward':
            raise Skip('integers have forward passes only')
        text = prototxt(task['path'], task['type'], task['batch'])
        if task['work'] == 'train':
            self._prepare_training(text)
        else:
            self._prepare_passes(text)

    def _load(self, net):
        import numpy as np
        with np.load(self.task['weights']) as weights:
            for name, blobs in net.params.items():
                for i, blob in enumerate(blobs):
                    blob.data[...] = weights['%s %d' % (name, i)]

    def _calibrate(self, net, batch):
        """Gives a net in codes the ranges of the same net in float on the same images."""
        observed = make_net(self.caffe, prototxt(self.task['path'], 'float', batch),
                            self.caffe.TEST)
        self._load(observed)
        observed.quant_mode = 'observe'
        self._feed(observed)
        observed.forward()
        with tempfile.NamedTemporaryFile(suffix='.caffemodel') as file:
            observed.save(file.name)
            net.copy_from(file.name)

    def _feed(self, net):
        net.blobs['data'].data[...] = images(tuple(net.blobs['data'].shape))

    def _first_items(self, output):
        import numpy as np
        first = np.array(output[:CHECKED_ITEMS], np.float32)
        return first.reshape(len(first), -1).tolist()

    def _evaluate(self):
        """The probabilities of the first items in phase TEST."""
        batch = min(CHECKED_ITEMS, self.task['batch'])
        net = make_net(self.caffe, prototxt(self.task['path'], self.task['type'], batch),
                       self.caffe.TEST)
        self._load(net)
        self._feed(net)
        self.facts['output'] = self._first_items(net.forward()[net.outputs[0]])

    def _prepare_passes(self, text):
        caffe, train = self.caffe, self.task['work'] == 'forward-backward'
        if train:
            self._evaluate()
            text += 'force_backward: true\n'
        net = make_net(caffe, text, caffe.TRAIN if train else caffe.TEST)
        self._load(net)
        if self.task['type'].startswith('int'):
            self._calibrate(net, self.task['batch'])
        self._feed(net)
        if train:
            net.blobs[net.outputs[0]].diff[...] = DIFF

        def step(passes):
            for _ in range(passes):
                result = net.forward()
                if train:
                    net.backward()
            self.device.synchronize()
            return result

        step(1)
        self.device.reset_peak()
        result = step(2)
        self.facts['mib'] = self.device.bytes_peak / 2 ** 20
        if not train:
            self.facts['output'] = self._first_items(result[net.outputs[0]])
        self.step = step

    def _solver(self, net, classes):
        """A solver with the shared weights, images and labels."""
        from caffe.proto import caffe_pb2
        settings = caffe_pb2.SolverParameter(
            base_lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, lr_policy='fixed',
            max_iter=1 << 30, random_seed=1, snapshot_after_train=False)
        settings.net_param.CopyFrom(net)
        with tempfile.NamedTemporaryFile('w', suffix='.prototxt') as file:
            file.write(str(settings))
            file.flush()
            solver = self.caffe.SGDSolver(file.name)
        solver.frees_memory = True  # as `caffe train` does
        self._load(solver.net)
        self._feed(solver.net)
        label = solver.net.blobs['label']
        label.data[...] = labels(label.shape[0], classes)
        return solver

    def _losses_without_dropout(self, classes):
        """Losses of a small batch, which Dropout does not make random."""
        batch = min(CHECKED_ITEMS, self.task['batch'])
        text = prototxt(self.task['path'], self.task['type'], batch)
        solver = self._solver(training_net(text, dropout=False), classes)
        return [solver.step(1) for _ in range(CHECKED_LOSSES)]

    def _prepare_training(self, text):
        self._evaluate()
        classes = len(self.facts['output'][0])
        losses = self._losses_without_dropout(classes) if self.task['dropout'] else None
        net = training_net(text)
        if self.task.get('recompute'):
            recompute_blocks(net)
        solver = self._solver(net, classes)
        own = [solver.step(1) for _ in range(CHECKED_LOSSES - 2)]
        self.device.synchronize()
        self.device.reset_peak()
        own += [solver.step(1) for _ in range(2)]
        self.facts['losses'] = [float(loss) for loss in losses or own]
        self.facts['mib'] = self.device.bytes_peak / 2 ** 20

        def step(passes):
            loss = solver.step(passes)
            self.device.synchronize()
            return loss

        self.step = step
