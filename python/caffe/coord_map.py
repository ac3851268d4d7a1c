"""Maps between the pixel coordinates of a NetSpec's blobs.

A map (axis, a, b) means that coordinate x of a layer's bottom becomes a x + b in its top, for the
axes from `axis` on; axis None means any first axis. Maps compose along paths of layers. `crop`
crops one blob to the pixels of another, as segmentation nets need it.
"""
from collections import deque

import numpy as np

from ._caffe import _function_layers
from .net_spec import layers as L

# Layers that keep the position of every element.
PASS_THROUGH_LAYERS = ['BatchNorm', 'Bias', 'BN', 'Clip', 'Dropout', 'Eltwise', 'ELU', 'Exp', 'Log',
                       'LRN', 'MVN', 'Noise', 'Normalize', 'Power', 'PReLU', 'Quantizer', 'ReLU',
                       'ReLU6', 'Scale', 'Split', *_function_layers()]

# Layers that move a window over the image.
WINDOW_LAYERS = ['Convolution', 'ConvolutionDepthwise', 'DepthwiseConvolution', 'Im2col', 'Pooling']

IDENTITY = (None, 1, 0)


class UndefinedMapException(Exception):
    """A layer of a type that has no coordinate map."""


class AxisMismatchException(Exception):
    """Two maps whose first axes differ."""


def _vector(value):
    return np.array(value, ndmin=1)


def conv_params(fn):
    """First spatial axis less one, stride, extent of the (dilated) kernel, pad of a layer."""
    name = 'pooling_param' if fn.type_name == 'Pooling' else 'convolution_param'
    params = fn.params.get(name, fn.params)
    legacy = sorted({'kernel_h', 'kernel_w', 'stride_h', 'stride_w', 'pad_h', 'pad_w'} & set(params))
    assert not legacy, '%s: use kernel_size, stride and pad instead of %s' % (
        fn.type_name, ', '.join(legacy))
    if 'kernel_size' not in params:
        raise UndefinedMapException('%s without kernel_size' % fn.type_name)
    extent = (_vector(params['kernel_size']) - 1) * _vector(params.get('dilation', 1)) + 1
    return params.get('axis', 1), _vector(params.get('stride', 1)), extent, _vector(
        params.get('pad', 0))


def crop_params(fn):
    """First axis that a Crop layer cuts, and its offsets."""
    params = fn.params.get('crop_param', fn.params)
    return params.get('axis', 2), _vector(params.get('offset', 0))


def coord_map(fn):
    """The map from a layer's bottom to its top."""
    kind = fn.type_name
    if kind in WINDOW_LAYERS:
        # The centre of the first window lies (extent - 1) / 2 - pad from the first pixel.
        axis, stride, extent, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if kind == 'Deconvolution':
        axis, stride, extent, pad = conv_params(fn)
        return axis, stride, (extent - 1) / 2 - pad
    if kind == 'Crop':
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset
    if kind in PASS_THROUGH_LAYERS:
        return IDENTITY
    raise UndefinedMapException(kind)


def compose(base_map, next_map):
    """The map that applies `next_map` first, then `base_map`."""
    axis, a, b = base_map
    next_axis, next_a, next_b = next_map
    if axis is None:
        axis = next_axis
    elif next_axis is not None and next_axis != axis:
        raise AxisMismatchException('axes %s and %s' % (axis, next_axis))
    return axis, a * next_a, a * next_b + b


def inverse(coord_map):
    """The map from top to bottom of a map from bottom to top."""
    axis, a, b = coord_map
    return axis, 1 / a, -b / a


def _spatial_bottoms(fn):
    # A Crop layer crops its first bottom; the second one only provides the size.
    inputs = fn.inputs[:1] if fn.type_name == 'Crop' else fn.inputs
    for bottom in inputs:
        yield from bottom if isinstance(bottom, (list, tuple)) else (bottom,)


def _maps_to(top, without_map):
    """Blob -> map to `top`, for every blob with a path of mapped layers to it, nearest first.

    Adds to `without_map` the layers that end a path because they have no map.
    """
    maps = {top: IDENTITY}
    waiting = deque([top])
    while waiting:
        current = waiting.popleft()
        try:
            step = coord_map(current.fn)
        except UndefinedMapException as error:
            if current.fn.inputs:
                without_map.append(str(error))
            continue
        for bottom in _spatial_bottoms(current.fn):
            if bottom not in maps:
                maps[bottom] = compose(maps[current], step)
                waiting.append(bottom)
    return maps


def coord_map_from_to(top_from, top_to):
    """The map from one top of a NetSpec to another, through a common ancestor."""
    without_map = []
    from_maps = _maps_to(top_from, without_map)
    for blob, to_map in _maps_to(top_to, without_map).items():
        if blob in from_maps:
            return compose(to_map, inverse(from_maps[blob]))
    text = 'no path of layers with a coordinate map connects the tops'
    if without_map:
        text += '; paths end at ' + ', '.join(dict.fromkeys(without_map))
    raise RuntimeError(text)


def crop(top_from, top_to):
    """A Crop layer that crops `top_from` to the pixels that `top_to` covers."""
    axis, a, b = coord_map_from_to(top_from, top_to)
    if not np.all(np.asarray(a) == 1):
        raise AssertionError('cannot crop: the scales differ (by a factor of %s)' % a)
    if not np.all(np.asarray(b) <= 0):
        raise AssertionError('cannot crop at a negative offset (%s)' % -b)
    if not np.all(np.round(b) == b):
        raise AssertionError('cannot crop at a fractional offset (%s)' % -b)
    if axis is None:
        axis = 1
    offset = [int(value) for value in _vector(-np.round(b))]
    return L.Crop(top_from, top_to, crop_param=dict(axis=axis + 1, offset=offset))
