#!/usr/bin/env python3
"""LSTM in Cortado and in PyTorch, in turns in one process: forward passes, and training iterations.

Both have the same weights; the outputs are compared before anything is measured. An iteration of
training is a forward and a backward pass through all steps and an update by SGD. Without PyTorch
only Cortado is measured. With --type int8, forward passes with products of int8 and in float, both
in Cortado.
"""
import argparse
import datetime
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'python')]

from facts import commit, processor, write_report  # noqa: E402

SIZES = ('50,1,128,128', '50,16,128,256', '100,32,256,512')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sizes', nargs='*', default=SIZES, metavar='T,N,D,H',
                        help='steps, sequences, inputs and outputs of a step')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--type', choices=['float', 'half', 'bfloat16', 'int8'],
                        default='float')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--output', metavar='FILE', help='write the report to this file, too')
    return parser.parse_args()


class Ours:
    name, wait_for = 'Cortado', 'loss'

    def __init__(self, arguments, size):
        import caffe
        from caffe import layers as L
        from caffe.proto import caffe_pb2
        steps, items, inputs, hidden = size
        net = caffe.NetSpec()
        net.x, net.cont, net.target = L.Input(ntop=3, shape=[
            dict(dim=[steps, items, inputs]), dict(dim=[steps, items]),
            dict(dim=[steps, items, hidden])])
        net.h = L.LSTM(net.x, net.cont, recurrent_param=dict(
            num_output=hidden, weight_filler=dict(type='uniform', min=-0.05, max=0.05),
            bias_filler=dict(type='uniform', min=-0.05, max=0.05)))
        net.loss = L.EuclideanLoss(net.h, net.target)
        proto = net.to_proto()
        float_type = 'float' if arguments.type == 'int8' else arguments.type
        proto.data_type = caffe_pb2.DataTypeProto.Value('CAFFE_' + float_type.upper())
        config = caffe.SolverParameter()
        config.net_param = proto
        config.base_lr, config.lr_policy, config.random_seed = 1e-6, 'fixed', 1
        self.solver = caffe.get_solver(config)
        self.net = caffe.Net(proto, caffe.TEST)
        self.net.share_with(self.solver.net)
        import numpy as np
        random = np.random.RandomState(1)
        self.data = [random.uniform(-1, 1, shape).astype('f')
                     for shape in ((steps, items, inputs), (steps, items, hidden))]
        for net in (self.net, self.solver.net):
            self.fill(net)
        self.proto = proto

    def in_int8(self):
        """The same layer with products of int8; x and h lie between -1 and 1."""
        import caffe
        from caffe.proto import caffe_pb2
        proto = caffe_pb2.NetParameter()
        proto.CopyFrom(self.proto)
        del proto.layer[-1]  # the loss
        proto.data_type = caffe_pb2.CAFFE_INT8_QUANTIZED
        proto.quantizer.add(name='x', observed_min=-1, observed_max=1)
        other = Ours.__new__(Ours)
        other.name, other.net = 'int8', caffe.Net(proto, caffe.TEST)
        other.net.share_with(self.net)
        other.data = self.data
        other.fill(other.net)
        other.wait_for = 'h'
        return other

    def fill(self, net):
        net.blobs['x'].float_data, net.blobs['target'].float_data = self.data
        net.blobs['cont'].data[...] = 1
        net.blobs['cont'].data[0] = 0

    def weights(self):
        return [blob.data.copy() for blob in self.net.params['h']]

    def output(self):
        self.net.forward()
        return self.net.blobs['h'].float_data

    def forward(self):
        self.net.forward()
        self.net.blobs[self.wait_for].float_data  # waits

    def train(self):
        self.solver.step(1)  # its loss waits


class Torch:
    name = 'PyTorch'

    def __init__(self, arguments, size, weights, data):
        import torch
        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        hidden = size[3]
        type_ = {'float': torch.float32, 'half': torch.float16,
                 'bfloat16': torch.bfloat16}[arguments.type]
        self.cuda = arguments.device.startswith(('cuda', 'opencl'))
        device = 'cuda' if self.cuda else 'cpu'
        self.lstm = torch.nn.LSTM(size[2], hidden).to(device, type_)
        order = [0, 1, 3, 2]  # i, f, g, o

        def rows(values):
            parts = torch.tensor(values).chunk(4)
            return torch.cat([parts[i] for i in order])
        with torch.no_grad():
            self.lstm.weight_ih_l0.copy_(rows(weights[0]))
            self.lstm.bias_ih_l0.copy_(rows(weights[1]))
            self.lstm.weight_hh_l0.copy_(rows(weights[2]))
            self.lstm.bias_hh_l0.zero_()
        self.x, self.target = [torch.tensor(values).to(device, type_) for values in data]
        self.sgd = torch.optim.SGD(self.lstm.parameters(), lr=1e-6)

    def _wait(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def output(self):
        with self.torch.no_grad():
            return self.lstm(self.x)[0].float().cpu().numpy()

    def forward(self):
        with self.torch.no_grad():
            self.lstm(self.x)
        self._wait()

    def train(self):
        self.sgd.zero_grad(set_to_none=True)
        y = self.lstm(self.x)[0]
        ((y - self.target) ** 2).sum().div(2 * y.shape[0]).backward()
        self.sgd.step()
        self._wait()


def measure(sides, work, rounds):
    """Medians in ms; the sides run in turns."""
    times = {side.name: [] for side in sides}
    for round_ in range(rounds + 5):
        for side in sides:
            begin = time.perf_counter()
            getattr(side, work)()
            if round_ >= 5:  # the first ones record graphs
                times[side.name].append(1000 * (time.perf_counter() - begin))
    return {name: statistics.median(all_) for name, all_ in times.items()}


def row(arguments, size):
    import numpy as np
    sides = [Ours(arguments, size)]
    outputs = [sides[0].output()]
    if arguments.type == 'int8':
        sides.append(sides[0].in_int8())
        difference = np.abs(outputs[0] - sides[1].output()).max()
        assert difference < 0.05, 'the outputs differ by %g' % difference
        times = measure(sides, 'forward', arguments.rounds)
        return '| %s | %.2f | %.2f | %.2f | %.4f |' % (
            ','.join(map(str, size)), times['int8'], times['Cortado'],
            times['Cortado'] / times['int8'], difference)
    try:
        import torch  # noqa: F401
    except ImportError:
        print('PyTorch is not installed', file=sys.stderr)
    else:
        sides.append(Torch(arguments, size, sides[0].weights(), sides[0].data))
        outputs.append(sides[1].output())
        difference = np.abs(outputs[0] - outputs[1]).max()
        limit = 1e-4 if arguments.type == 'float' else 0.05
        assert difference < limit, 'the outputs differ by %g' % difference
    cells = [','.join(map(str, size))]
    for work in ('forward', 'train'):
        times = measure(sides, work, arguments.rounds)
        cells += ['%.2f' % times[side.name] for side in sides] + ['–'] * (2 - len(sides))
        cells.append('%.2f' % (times['PyTorch'] / times['Cortado']) if len(sides) > 1 else '–')
    return '| %s |' % ' | '.join(cells)


def main():
    arguments = parse_arguments()
    import caffe
    caffe.set_logging_disabled(True)
    caffe.set_device(arguments.device)
    lines = ['%s, %s, %d processors, %s, %s, at %s' % (
        datetime.date.today(), processor(), os.cpu_count(), caffe.device().name, arguments.type,
        commit()), '']
    if arguments.type == 'int8':
        lines += ['| T,N,D,H | int8, ms | float, ms | ratio | largest difference |',
                  '|---|---|---|---|---|']
    else:
        lines += ['| T,N,D,H | forward, ms | PyTorch | ratio | training, ms | PyTorch | ratio |',
                  '|---|---|---|---|---|---|---|']
    for size in arguments.sizes:
        lines.append(row(arguments, [int(part) for part in size.split(',')]))
    write_report('\n'.join(lines) + '\n', arguments.output)


if __name__ == '__main__':
    main()
