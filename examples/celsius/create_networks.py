"""Writes net_<type>.prototxt: one neuron that learns fahrenheit = 1.8 celsius + 32."""
from caffe_examples_setup import *

TYPES = {'half': caffe.data_type.CAFFE_HALF,
         'float': caffe.data_type.CAFFE_FLOAT,
         'int8': caffe.data_type.CAFFE_INT8_QUANTIZED,
         'int16': caffe.data_type.CAFFE_INT16_QUANTIZED}

for name, data_type in TYPES.items():
    net = caffe.NetSpec()
    net.celsius = L.Input(input_param=dict(shape=dict(dim=[1, 1, 1, 1])), ntop=1)
    # Only the training net (phase 0) gets the correct answer.
    net.fahrenheit = L.Input(input_param=dict(shape=dict(dim=[1, 1, 1, 1])), ntop=1,
                             include=dict(phase=0))
    net.neuron = L.InnerProduct(
        net.celsius, bottom_data_type=data_type, compute_data_type=data_type,
        top_data_type=data_type,
        inner_product_param=dict(num_output=1, weight_filler=dict(type='constant'),
                                 bias_filler=dict(type='constant')))
    # The answer is a float, in every type of the neuron.
    net.output = L.Quantizer(net.neuron, bottom_data_type=data_type, compute_data_type=data_type,
                             top_data_type=caffe.data_type.CAFFE_FLOAT)
    net.euclidean = L.EuclideanLoss(net.output, net.fahrenheit, include=dict(phase=0))
    proto = net.to_proto()
    proto.name = 'net'
    with open('net_%s.prototxt' % name, 'w') as file:
        print(proto, file=file)
