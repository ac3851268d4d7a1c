"""Nets written as Python expressions.

`layers.Type(*bottoms, **params)` creates a layer and returns its tops, `params.Message.VALUE` is an
enum value, and `NetSpec` names tops by attribute:

    net = NetSpec()
    net.data, net.label = layers.Data(source='train_lmdb', backend=params.Data.LMDB, ntop=2)
    net.score = layers.InnerProduct(net.data, num_output=10, weight_filler=dict(type='xavier'))
    net.loss = layers.SoftmaxWithLoss(net.score, net.label)
    print(net.to_proto())

A keyword that is not a field of LayerParameter goes to the message of the layer's own type
(`num_output` above to `inner_product_param`). Values may be numbers, strings, enums, dicts (messages),
lists (repeated fields) and protobuf messages.

Enum values may be names: `pool='MAX'`, `backend='lmdb'`. `data_type='half'` sets the types of a
layer's bottoms, arithmetic and tops (float, half, bfloat16, double, quant8, quant16).

Nets are values, too: `layers.MOE(x, gating=net, expert=net, experts=16, select=4, ntop=3)` takes each as a
NetSpec or a NetParameter. `expert` may be a list of nets, `experts` a list of how often each occurs.

A list of tops is a *bundle*: layers that never exist together, such as the data layers of the two
phases, whose tops share one name. `net.data = [train_data, test_data]` names it.
"""
from collections import Counter, OrderedDict
import numbers
import operator

from google.protobuf.message import Message

from . import names as _names
from ._caffe import _describe_foreign_layer, layer_type_list
from .proto import caffe_pb2

# Layers that use the message of another type; all others are found by the message's name.
_SHARED_MESSAGES = {'ConvolutionDepthwise': 'convolution', 'Deconvolution': 'convolution',
                    'DepthwiseConvolution': 'convolution', 'GRU': 'recurrent',
                    'Im2col': 'convolution', 'LSTM': 'recurrent', 'RNN': 'recurrent'}

# Shorter words for fields of a layer's own message.
_FIELD_WORDS = {'MOE': {'gating': 'gating_net', 'expert': 'expert_net',
                        'experts': 'expert_instances', 'select': 'select_experts'}}

# The fields that `data_type` of a layer sets.
_TYPES_OF_A_LAYER = ('bottom_data_type', 'compute_data_type', 'top_data_type')

# Names of element types besides those of the enum; messages list only the first ones.
_TYPE_NAMES = ['float', 'half', 'bfloat16', 'double', 'quant8', 'quant16']
_TYPE_WORDS = {'float': 'CAFFE_FLOAT', 'float32': 'CAFFE_FLOAT', 'half': 'CAFFE_HALF',
               'float16': 'CAFFE_HALF', 'double': 'CAFFE_DOUBLE', 'float64': 'CAFFE_DOUBLE',
               'bfloat16': 'CAFFE_BFLOAT16',
               'quant8': 'CAFFE_INT8_QUANTIZED', 'int8': 'CAFFE_INT8_QUANTIZED',
               'quant16': 'CAFFE_INT16_QUANTIZED', 'int16': 'CAFFE_INT16_QUANTIZED'}


def param_name_dict():
    """Layer type -> the name of its field in LayerParameter, without the suffix _param."""
    names = {}
    for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields:
        if field.name.endswith('_param') and field.message_type is not None:
            type_name = field.message_type.name
            if type_name.endswith('Parameter'):
                names.setdefault(type_name[:-len('Parameter')], field.name[:-len('_param')])
    for type_name, name in _SHARED_MESSAGES.items():
        names.setdefault(type_name, name)
    return names


_param_names = param_name_dict()


def to_proto(*tops):
    """The NetParameter with every layer that is needed for the given tops (or Functions)."""
    emission = _Emission({})
    for top in tops:
        emission.emit_all(top)
    return emission.net()


def _plain(value):
    """The value for protobuf: enums of the bindings and NumPy's numbers become Python's."""
    if isinstance(value, (bool, int, float, str, bytes)):
        return value
    if type(value).__name__ in ('bool_', 'bool'):  # NumPy's
        return bool(value)
    if isinstance(value, numbers.Integral) or hasattr(value, '__index__'):
        return operator.index(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value


def _enum_number(field, value):
    """The number of an enum's value, given by name, by number or as an enum of the bindings."""
    values = field.enum_type.values_by_name
    if isinstance(value, str):
        folded = {name.upper(): name for name in values}
        if field.enum_type.name == 'DataTypeProto':
            folded.update({word.upper(): name for word, name in _TYPE_WORDS.items()})
        if value.upper() in folded:
            return values[folded[value.upper()]].number
    else:
        number = _plain(value)
        if isinstance(number, int) and number in field.enum_type.values_by_number:
            return int(number)
    known = list(values)
    if field.enum_type.name == 'DataTypeProto':
        known = _TYPE_NAMES + known
    raise ValueError('%r is not a value of %s; the values are %s'
                     % (value, field.name, _names.listed(known, 30)))


def _plain_for(field, value):
    return _plain(value) if field.enum_type is None else _enum_number(field, value)


def _is_repeated(field):
    # protobuf deprecates `label` in the versions that have `is_repeated`.
    return field.is_repeated if hasattr(field, 'is_repeated') else (
        field.label == field.LABEL_REPEATED)


# The fields of height and of width that a list of two values of pooling fills.
_OF_AXES = {name: (name.split('_')[0] + '_h', name.split('_')[0] + '_w')
            for name in ('kernel_size', 'stride', 'pad')}


def _assign_axes(pooling, name, values):
    """Assigns a list of pooling: one value, or one for height and one for width."""
    values = list(values)
    if len(values) not in (1, 2):
        raise ValueError('%s is one value, or one for height and one for width, not %r'
                         % (name, values))
    for field, value in zip((name,) if len(values) == 1 else _OF_AXES[name], values):
        assign_proto(pooling, field, value)


def assign_proto(proto, name, value):
    """Assigns a Python value to a field: a dict to a message, a sequence to a repeated field."""
    field = proto.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise AttributeError('%s has no field %s%s' % (
            proto.DESCRIPTOR.name, name,
            _names.did_you_mean(name, proto.DESCRIPTOR.fields_by_name)))
    if _is_repeated(field):
        if (isinstance(value, (str, bytes, dict, Message, NetSpec))
                or not hasattr(value, '__iter__')
                or field.message_type is caffe_pb2.BlobShape.DESCRIPTOR and _is_shape(value)):
            value = [value]
        repeated = getattr(proto, name)
        for item in value:
            if field.message_type is None:
                repeated.append(_plain_for(field, item))
            else:
                _assign_message(repeated.add(), item)
    elif field.message_type is not None:
        _assign_message(getattr(proto, name), value)
    elif (isinstance(proto, caffe_pb2.PoolingParameter) and name in _OF_AXES
            and hasattr(value, '__iter__') and not isinstance(value, (str, bytes))):
        _assign_axes(proto, name, value)
    else:
        setattr(proto, name, _plain_for(field, value))


def _is_shape(value):
    """Whether this is a list of integers, such as [4, 1, 28, 28]."""
    return hasattr(value, '__iter__') and not isinstance(value, (str, bytes, dict, Message)) and (
        all(hasattr(extent, '__index__') for extent in value))


def _assign_message(message, value):
    if isinstance(message, caffe_pb2.BlobShape) and _is_shape(value):
        value = dict(dim=value)
    if isinstance(value, NetSpec):
        value = value.to_proto()
    if isinstance(value, Message):
        message.CopyFrom(value)
    elif isinstance(value, dict):
        message.SetInParent()
        for name, item in value.items():
            assign_proto(message, name, item)
    else:
        raise TypeError('%s takes a dict or a message, not %r' % (message.DESCRIPTOR.name, value))


class Top:
    """One output of a layer. `name`, if set, is used if the NetSpec sets no name."""

    def __init__(self, fn, n):
        self.fn = fn
        self.n = n
        self.name = None

    def to_proto(self):
        """The NetParameter with every layer that is needed for this top."""
        return to_proto(self)

    def __repr__(self):
        return '<caffe top %d of %r>' % (self.n, self.fn)


def _is_bundle(value):
    """Whether this is a list; a tuple is the tops of one layer with several tops."""
    return isinstance(value, list) and len(value) > 0 and all(isinstance(t, Top) for t in value)


def _check_bundle(value, where):
    if len({top.fn for top in value}) != len(value):
        raise TypeError('%s: two tops of one layer cannot have one name' % where)


class Function:
    """A layer: its type, its bottoms, and its parameters, not yet named."""

    def __init__(self, type_name, inputs, params):
        self.type_name = type_name
        for index, bottom in enumerate(inputs):
            if not isinstance(bottom, Top) and not _is_bundle(bottom):
                raise TypeError('%s input %d is not a Top (type is %s)'
                                % (type_name, index, type(bottom)))
            if _is_bundle(bottom):
                _check_bundle(bottom, '%s input %d' % (type_name, index))
        self.inputs = tuple(inputs)
        self.params = dict(params)
        if self.inputs and 'bottom' in self.params:
            raise TypeError('%s: the bottoms are given twice, as arguments and as bottom=%r'
                            % (type_name, self.params['bottom']))
        self.in_place = self.params.pop('in_place', False)
        self.name = self.params.pop('name', None)
        self.top_names = self.take_top_names()
        if self.in_place and (not self.inputs or self.ntop != 1 or self.top_names):
            raise TypeError('%s works in place: it needs a bottom and has one top, the bottom'
                            % type_name)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def take_top_names(self):
        """The names of the keyword top, or None; sets ntop.

        With ntop=0 the names are written, but there are no Tops to use.
        """
        names = self.params.pop('top', None)
        if isinstance(names, str):
            names = [names]
        self.ntop = self.params.pop('ntop', 1 if names is None else len(names))
        if names is None:
            return None
        if not all(isinstance(name, str) for name in names) or self.ntop not in (0, len(names)):
            raise TypeError('%s: top=%r are not the names of ntop=%r blobs; leave one of them out'
                            % (self.type_name, names, self.ntop))
        return list(names)

    def __repr__(self):
        return '<caffe layer %s(%s)>' % (self.type_name, ', '.join(
            '%s=%r' % item for item in self.params.items()))

    def assign_params(self, layer):
        """Fills a LayerParameter from the keywords."""
        own_name = _param_names.get(self.type_name)
        own_field = own_name and caffe_pb2.LayerParameter.DESCRIPTOR.fields_by_name[
            own_name + '_param']
        words = _FIELD_WORDS.get(self.type_name, {})
        params = {words.get(key, key): value for key, value in self.params.items()}
        if len(params) < len(self.params):
            raise TypeError('%s %s: a parameter is given twice: %s'
                            % (self.type_name, layer.name, ', '.join(sorted(self.params))))
        if 'data_type' in params and 'data_type' not in getattr(own_field, 'message_type',
                                                                layer.DESCRIPTOR).fields_by_name:
            data_type = params.pop('data_type')
            params = {**{key: data_type for key in _TYPES_OF_A_LAYER}, **params}
        for key, value in params.items():
            in_own = (own_field is not None and not key.endswith('param')
                      and key in own_field.message_type.fields_by_name)
            if not in_own and key not in layer.DESCRIPTOR.fields_by_name:
                raise AttributeError(self.unknown_parameter(key, layer, own_field))
            try:
                assign_proto(getattr(layer, own_field.name) if in_own else layer, key, value)
            except (AttributeError, TypeError, ValueError) as error:
                raise type(error)('%s %s, parameter %s: %s'
                                  % (self.type_name, layer.name, key, error)) from error

    def unknown_parameter(self, key, layer, own_field):
        """The message for an unknown parameter or an unknown layer type."""
        known_types = set(layer_type_list()) | set(_param_names)
        if own_field is None and self.type_name not in known_types:
            foreign = _describe_foreign_layer(self.type_name)
            return '%s %s: unknown layer type %s%s; no message has its parameter %s' % (
                self.type_name, layer.name, self.type_name, '; ' + foreign if foreign else
                _names.did_you_mean(self.type_name, sorted(known_types)), key)
        known = list(layer.DESCRIPTOR.fields_by_name) + ['ntop', 'in_place', 'data_type']
        messages = 'LayerParameter'
        if own_field is not None:
            known = list(own_field.message_type.fields_by_name) + known
            messages += ' or ' + own_field.message_type.name
        return '%s %s: no parameter %s in %s%s' % (
            self.type_name, layer.name, key, messages, _names.did_you_mean(key, known))


class _Emission:
    """Turns layers into messages, each after the layers that it reads."""

    def __init__(self, names):
        self.names = dict(names)
        self.autonames = Counter()
        self.layers = OrderedDict()  # Function -> LayerParameter

    def net(self):
        net = caffe_pb2.NetParameter()
        net.layer.extend(self.layers.values())
        return net

    def emit_all(self, item):
        if _is_bundle(item):
            self.bundle_name(item)
        else:
            self.emit(item.fn if isinstance(item, Top) else item)

    def top_name(self, top):
        if top.fn.top_names:
            return top.fn.top_names[top.n]
        if top not in self.names:
            self.names[top] = top.name or self.autoname(top.fn)
        return self.names[top]

    def autoname(self, fn):
        self.autonames[fn.type_name] += 1
        return fn.type_name + str(self.autonames[fn.type_name])

    def name_bundle(self, tops):
        """Names all tops of a bundle like the first one that has a name."""
        named = [top for top in tops if top in self.names or top.name]
        shared = self.top_name(named[0] if named else tops[0])
        for top in tops:
            self.names.setdefault(top, shared)

    def bundle_name(self, tops):
        """Emits the layers of a bundle; returns the name that their tops share."""
        self.name_bundle(tops)
        # The OpenCL fork's prototxts begin with a bundle's last layer.
        emitted = {self.blob_name(top) for top in reversed(tops)}
        if len(emitted) != 1:
            raise ValueError('the tops of a bundle have different names: %s'
                             % ', '.join(sorted(emitted)))
        return emitted.pop()

    def blob_name(self, bottom):
        """The name of the blob that a bottom refers to: for a layer in place that of its bottom."""
        if _is_bundle(bottom):
            return self.bundle_name(bottom)
        return self.emit(bottom.fn).top[bottom.n]

    def emit(self, fn):
        # An explicit stack: nets are deeper than Python's recursion limit.
        stack = [fn]
        while stack:
            current = stack[-1]
            if current in self.layers:
                stack.pop()
                continue
            waiting = [top.fn for bottom in current.inputs
                       for top in (reversed(bottom) if _is_bundle(bottom) else (bottom,))
                       if top.fn not in self.layers]
            if waiting:
                for bottom in filter(_is_bundle, current.inputs):
                    self.name_bundle(bottom)  # before its layers are emitted one by one
                stack.extend(reversed(waiting))
            else:
                self.layers[current] = self.message(current)
                stack.pop()
        return self.layers[fn]

    def message(self, fn):
        layer = caffe_pb2.LayerParameter()
        layer.type = fn.type_name
        for bottom in fn.inputs:
            layer.bottom.append(self.blob_name(bottom))
        if fn.name:
            layer.name = fn.name
        else:
            layer.name = self.top_name(fn.tops[0]) if fn.tops else (
                self.names.get(fn) or self.autoname(fn))
        if fn.in_place:
            layer.top.append(layer.bottom[0])
        else:
            layer.top.extend(fn.top_names or (self.top_name(top) for top in fn.tops))
        fn.assign_params(layer)
        return layer


class NetSpec:
    """Tops by name. Names are given by attribute or item assignment and become blob names.

    A layer with the keyword top=['a', 'b'] has these names, whatever its tops are assigned to.
    """

    def __init__(self):
        super().__setattr__('tops', OrderedDict())

    def __setattr__(self, name, value):
        self[name] = value

    def __getattr__(self, name):
        try:
            return self.tops[name]
        except KeyError:
            raise AttributeError('this net has no top %s%s' % (
                name, _names.did_you_mean(name, self.tops))) from None

    def __dir__(self):
        return [*super().__dir__(), *self.tops]

    def __delattr__(self, name):
        del self[name]

    def __setitem__(self, name, value):
        if isinstance(value, (list, tuple)):
            value = list(value)
            if not _is_bundle(value):
                raise TypeError('%s: a list of tops or one top, not %r' % (name, value))
            _check_bundle(value, name)
        elif not isinstance(value, (Top, Function)):
            raise TypeError('%s: a top, not %r' % (name, value))
        self.tops[name] = value

    def __getitem__(self, name):
        return self.tops[name]

    def __delitem__(self, name):
        del self.tops[name]

    def __contains__(self, name):
        return name in self.tops

    def __repr__(self):
        return '<caffe.NetSpec of %d tops: %s>' % (len(self.tops), _names.listed(self.tops))

    def keys(self):
        """The names, in order of assignment."""
        return list(self.tops.keys())

    def vals(self):
        """The tops, in order of assignment."""
        return list(self.tops.values())

    def update(self, tops):
        """Names the tops of a dict."""
        for name, top in dict(tops).items():
            self[name] = top

    def to_proto(self):
        """The NetParameter with every layer that is needed for the named tops."""
        names = {}
        for name, value in self.tops.items():
            for top in value if isinstance(value, (list, tuple)) else (value,):
                names[top] = name
        emission = _Emission(names)
        for value in self.tops.values():
            emission.emit_all(value)
        return emission.net()


class Layers:
    """`layers.Type` makes layers of that type: any type, including the user's own."""

    def __getattr__(self, type_name):
        if type_name.startswith('__'):
            raise AttributeError(type_name)

        def make_layer(*inputs, **params):
            fn = Function(type_name, inputs, params)
            if fn.ntop == 0:
                return fn
            return fn.tops[0] if fn.ntop == 1 else fn.tops

        make_layer.__name__ = type_name
        own = _param_names.get(type_name)
        make_layer.__doc__ = 'A layer of type %s%s' % (type_name, '.' if own is None else (
            '; parameters: %s, and those of LayerParameter.' % ', '.join(
                caffe_pb2.LayerParameter.DESCRIPTOR.fields_by_name[own + '_param']
                .message_type.fields_by_name)))
        return make_layer

    def __dir__(self):
        return sorted({*super().__dir__(), *layer_type_list()})


class _Message:
    """`params.Pooling`: the enum values, and the class, of a message."""

    def __init__(self, message):
        self._message = message

    def _values(self):
        return [value for enum in self._message.DESCRIPTOR.enum_types
                for value in enum.values_by_name]

    def __call__(self, *arguments, **fields):
        return self._message(*arguments, **fields)

    def __getattr__(self, name):
        try:
            return getattr(self._message, name)
        except AttributeError:
            raise AttributeError('%s has no value %s%s; the values are %s' % (
                self._message.DESCRIPTOR.name, name, _names.did_you_mean(name, self._values()),
                _names.listed(self._values(), 30))) from None

    def __dir__(self):
        return [*super().__dir__(), *self._values()]

    def __repr__(self):
        return '<caffe.params.%s: %s>' % (self._message.DESCRIPTOR.name[:-len('Parameter')],
                                          _names.listed(self._values(), 30))


class Parameters:
    """`params.Pooling.MAX` is the value MAX of an enum in PoolingParameter."""

    def __getattr__(self, message_name):
        message = getattr(caffe_pb2, message_name + 'Parameter', None)
        if message is None:
            raise AttributeError('there is no message %sParameter%s' % (
                message_name, _names.did_you_mean(message_name, _message_names())))
        return _Message(message)

    def __dir__(self):
        return sorted({*super().__dir__(), *_message_names()})


def _message_names():
    return [name[:-len('Parameter')] for name in caffe_pb2.DESCRIPTOR.message_types_by_name
            if name.endswith('Parameter') and name != 'Parameter']


layers = Layers()
params = Parameters()
