import numpy as np
import pytest

import caffe
from caffe import layers as L
from caffe.coord_map import (PASS_THROUGH_LAYERS, AxisMismatchException, UndefinedMapException,
                             compose, conv_params, coord_map, coord_map_from_to, crop, crop_params,
                             inverse)
from caffe.net_spec import NetSpec, to_proto


def data():
    return L.Input(shape=dict(dim=[2, 1, 100, 100]))


@pytest.mark.parametrize('make, expected', [
    (lambda x: L.Convolution(x, num_output=1, kernel_size=5, stride=2, pad=1), (1, 0.5, -0.5)),
    (lambda x: L.Pooling(x, kernel_size=2, stride=2), (1, 0.5, -0.25)),
    (lambda x: L.Pooling(x, pooling_param=dict(kernel_size=3, stride=1, pad=1)), (1, 1, 0)),
    (lambda x: L.Deconvolution(x, convolution_param=dict(num_output=1, kernel_size=4, stride=2,
                                                         pad=1)), (1, 2, 0.5)),
    # A kernel of 3 with dilation 2 spans 5 pixels.
    (lambda x: L.Convolution(x, num_output=1, kernel_size=3, dilation=2), (1, 1, -2)),
    (lambda x: L.DepthwiseConvolution(x, kernel_size=5, stride=2, pad=1), (1, 0.5, -0.5)),
    (lambda x: L.ConvolutionDepthwise(x, kernel_size=5, stride=2, pad=1), (1, 0.5, -0.5)),
    (lambda x: L.ReLU(x), (None, 1, 0)),
    (lambda x: L.Crop(x, x, axis=2, offset=[3, 4]), (1, 1, [-3, -4]))])
def test_the_map_of_a_layer(make, expected):
    axis, a, b = coord_map(make(data()).fn)
    assert axis == expected[0]
    np.testing.assert_allclose(a, expected[1])
    np.testing.assert_allclose(b, np.array(expected[2], ndmin=1 if np.ndim(b) else 0))


def test_a_deconvolution_undoes_the_convolution_of_its_parameters():
    for params in (dict(kernel_size=3), dict(kernel_size=5, stride=3, pad=2), dict(kernel_size=7, pad=3)):
        conv = L.Convolution(data(), num_output=1, **params)
        deconv = L.Deconvolution(conv, convolution_param=dict(num_output=1, **params))
        axis, a, b = compose(coord_map(deconv.fn), coord_map(conv.fn))
        assert axis == 1
        np.testing.assert_allclose(a, 1)
        np.testing.assert_allclose(b, 0, atol=1e-12)
        back = compose(inverse(coord_map(conv.fn)), coord_map(conv.fn))
        np.testing.assert_allclose([back[1], back[2]], [[1], [0]], atol=1e-12)


def test_layers_that_leave_pixels_alone():
    conv = L.Convolution(data(), num_output=1, kernel_size=3)
    for kind in PASS_THROUGH_LAYERS:
        assert coord_map(getattr(L, kind)(conv).fn) == (None, 1, 0)
    same = L.ReLU(L.Dropout(conv))
    assert coord_map_from_to(conv, same)[1:] == (1, 0)


def test_padding_shifts():
    x = data()
    plain = L.Convolution(x, num_output=1, kernel_size=3)
    for pad in (1, 2):
        padded = L.Convolution(x, num_output=1, kernel_size=3, pad=pad)
        assert coord_map_from_to(plain, padded)[2] == pad
        assert coord_map_from_to(padded, plain)[2] == -pad


def test_a_stack_of_convolutions_is_one_with_a_large_kernel():
    x = data()
    stack = x
    for _ in range(3):
        stack = L.Convolution(stack, num_output=1, kernel_size=3)
    one = L.Convolution(x, num_output=1, kernel_size=7)
    assert coord_map_from_to(stack, x) == coord_map_from_to(one, x)


def test_rectangular_kernels_and_three_axes():
    x = data()
    axis, a, b = coord_map_from_to(x, L.Convolution(x, num_output=1, kernel_size=[3, 5, 7],
                                                    stride=[1, 1, 1], pad=[1, 0, 3]))
    np.testing.assert_allclose(b, [0, -2, 0])
    rectangle = L.Convolution(x, num_output=1, kernel_size=[3, 5])
    assert crop(x, rectangle).fn.params['crop_param'] == dict(axis=2, offset=[1, 2])


def test_crops_of_crops_add_up():
    x = data()
    offset = L.Crop(L.Crop(x, x, axis=2, offset=3), x, axis=2, offset=[4, 5])
    np.testing.assert_allclose(coord_map_from_to(x, offset)[2], [-7, -8])
    assert crop_params(offset.fn)[0] == 2


def test_the_crop_of_a_segmentation_net():
    net = NetSpec()
    net.data = data()
    net.conv = L.Convolution(net.data, num_output=4, kernel_size=3, pad=20)
    net.pool = L.Pooling(net.conv, kernel_size=2, stride=2)
    net.up = L.Deconvolution(net.pool, convolution_param=dict(num_output=4, kernel_size=2,
                                                              stride=2))
    net.score = crop(net.up, net.data)
    layer = net.to_proto().layer[-1]
    assert layer.type == 'Crop' and list(layer.bottom) == ['up', 'data']
    assert layer.crop_param.axis == 2 and list(layer.crop_param.offset) == [19]
    assert len(to_proto(net.score).layer) == 5


def test_a_segmentation_net_with_a_crop_runs():
    """A block of pixels comes back at its own place."""
    net = NetSpec()
    net.data = L.Input(shape=dict(dim=[2, 1, 20, 24]))
    net.conv = L.Convolution(net.data, num_output=1, kernel_size=3, pad=20)
    net.pool = L.Pooling(net.conv, kernel_size=2, stride=2)
    net.up = L.Deconvolution(net.pool, convolution_param=dict(num_output=1, kernel_size=2,
                                                              stride=2))
    net.score = crop(net.up, net.data)
    proto = net.to_proto()
    proto.force_backward = True
    built = caffe.Net(proto, caffe.TEST)
    assert built.blobs['up'].data.shape == (2, 1, 58, 62)
    assert built.blobs['score'].data.shape == built.blobs['data'].data.shape
    built.params['conv'][0].data[0, 0, 1, 1] = 1
    built.params['up'][0].data[...] = 1
    # Windows of the pooling begin at odd pixels of the data: each block is a whole window.
    image = np.zeros((2, 1, 20, 24), np.float32)
    image[0, 0, 5:7, 9:11] = 3
    image[1, 0, 13:15, 1:3] = -2
    built.blobs['data'].data[...] = image
    built.forward()
    np.testing.assert_array_equal(built.blobs['score'].data, image)
    # Another size of the input gives another window.
    built.blobs['data'].reshape(1, 1, 16, 10)
    built.reshape()
    assert built.blobs['score'].data.shape == (1, 1, 16, 10)


def test_what_cannot_be_mapped():
    x, y = data(), data()
    with pytest.raises(RuntimeError, match='no path'):
        coord_map_from_to(L.ReLU(x), L.ReLU(y))
    with pytest.raises(RuntimeError, match='no path.*; paths end at InnerProduct$'):
        coord_map_from_to(L.InnerProduct(x, num_output=1), x)
    with pytest.raises(UndefinedMapException):
        coord_map(L.InnerProduct(x, num_output=1).fn)
    with pytest.raises(AssertionError, match='scales'):
        crop(x, L.Pooling(x, kernel_size=2, stride=2))
    with pytest.raises(AssertionError, match='negative'):
        crop(L.Convolution(x, num_output=1, kernel_size=3), x)
    with pytest.raises(AssertionError, match='fractional'):
        crop(x, L.Convolution(x, num_output=1, kernel_size=2))
    with pytest.raises(AssertionError, match='kernel_h'):
        conv_params(L.Convolution(x, num_output=1, kernel_h=3, kernel_w=3).fn)
    with pytest.raises(AxisMismatchException):
        compose((1, 1, 0), (2, 1, 0))
