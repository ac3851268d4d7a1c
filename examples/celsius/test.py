"""test.py [float|half]: the error of the trained neuron in a precision of choice."""
from caffe_examples_setup import *

precision = sys.argv[1] if len(sys.argv) > 1 else 'float'
net = caffe.Net('net_%s.prototxt' % precision, caffe.TEST, weights='net_trained.caffemodel')
errors = []
for c in range(-273, 1000):
    net.blobs['celsius'].data[0] = c
    net.forward()
    errors.append(abs(net.blobs['output'].data[0, 0] - (1.8 * c + 32)))
print('Average error: %.4f F, worst: %.4f F' % (np.mean(errors), np.max(errors)))
