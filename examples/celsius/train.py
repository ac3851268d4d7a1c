"""train.py [float|half]: trains the neuron, then observes the ranges of its values.

Writes net_trained.caffemodel, whose `quantizer` list has the ranges that integer types need.
"""
from caffe_examples_setup import *

precision = sys.argv[1] if len(sys.argv) > 1 else 'float'
net_file = 'net_%s.prototxt' % precision

celsius = np.arange(-273, 1000, dtype=float)
np.random.shuffle(celsius)
count = len(celsius) * 9 // 10
train, test = celsius[:count], celsius[count:]

config = caffe.SolverParameter()
config.train_net = net_file
config.type = 'Adam'
config.base_lr = 1.0
config.momentum = 0.99
config.weight_decay = 0.00005
config.lr_policy = 'inv'
config.gamma = 0.01
config.power = 0.75
config.max_iter = 6000  # the thesis stops at 2000, with an error of 2 F
config.snapshot = 2000
config.snapshot_prefix = 'net'
config.display = 100

solver = caffe.get_solver(config)
losses = []
for iteration in range(config.max_iter):
    c = random.choice(train)
    solver.net.blobs['celsius'].data[0] = c
    solver.net.blobs['fahrenheit'].data[0] = 1.8 * c + 32
    loss = solver.step(1)
    if iteration % 20 == 0:
        losses.append(loss)
plt.semilogy(range(0, config.max_iter, 20), losses)
plt.xlabel('iteration')
plt.ylabel('loss')
plt.savefig('loss.png')

net = caffe.Net(net_file, caffe.TEST, weights='net_iter_%d.caffemodel' % config.max_iter)
net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
errors = {}
for c in celsius:  # all of them: values outside an observed range are clamped
    net.blobs['celsius'].data[0] = c
    net.forward()
    errors[c] = abs(net.blobs['output'].data[0, 0] - (1.8 * c + 32))
print('Average error: %.4f F' % np.mean([errors[c] for c in test]))
net.save('net_trained.caffemodel')
