"""test.py [float|half|int16|int8]: the error of the trained neuron, by default in every precision.

All precisions load the same float weights; the integer types quantize them by the ranges that
train.py observed. The table also has the errors of the thesis (its table 4.6).
"""
from caffe_examples_setup import *

THESIS = {'float': 2.51804, 'half': 2.26494, 'int16': 2.42341, 'int8': 6.93617}
precisions = sys.argv[1:] or list(THESIS)

print('%-9s %14s %10s %10s' % ('precision', 'average error', 'worst', 'thesis'))
for precision in precisions:
    net = caffe.Net('net_%s.prototxt' % precision, caffe.TEST, weights='net_trained.caffemodel')
    errors = []
    for c in range(-273, 1000):
        net.blobs['celsius'].data[0] = c
        net.forward()
        errors.append(abs(net.blobs['output'].data[0, 0] - (1.8 * c + 32)))
    print('%-9s %12.4f F %8.4f F %8.3f F'
          % (precision, np.mean(errors), np.max(errors), THESIS[precision]))
