"""Nets written as Python expressions.

`layers.Type(*bottoms, **params)` makes a layer and gives its tops, `params.Message.VALUE` is an enum
value, and `NetSpec` names tops by attribute:

    net = NetSpec()
    net.data, net.label = layers.Data(source='train_lmdb', backend=params.Data.LMDB, ntop=2)
    net.score = layers.InnerProduct(net.data, num_output=10, weight_filler=dict(type='xavier'))
    net.loss = layers.SoftmaxWithLoss(net.score, net.label)
    print(net.to_proto())

A keyword that is no field of LayerParameter goes to the message of the layer's own type
(`num_output` above to `inner_product_param`). Values may be numbers, strings, enums, dicts (messages),
lists (repeated fields) and protobuf messages.

A list of tops is a *bundle*: layers that never exist together, such as the data layers of the two
phases, whose tops bear one name. `net.data = [train_data, test_data]` names it.
"""
from collections import Counter, OrderedDict
import numbers
import operator

from google.protobuf.message import Message

from .proto import caffe_pb2

# Layers that use the message of another type; all others are found by the message's name.
_SHARED_MESSAGES = {'ConvolutionDepthwise': 'convolution', 'Deconvolution': 'convolution',
                    'DepthwiseConvolution': 'convolution', 'Im2col': 'convolution',
                    'LSTM': 'recurrent', 'RNN': 'recurrent'}


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
    """The value as protobuf takes it: enums of the bindings and NumPy's numbers become Python's."""
    if isinstance(value, (bool, int, float, str, bytes)):
        return value
    if type(value).__name__ in ('bool_', 'bool'):  # NumPy's
        return bool(value)
    if isinstance(value, numbers.Integral) or hasattr(value, '__index__'):
        return operator.index(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value


def _is_repeated(field):
    # protobuf deprecates `label` from the version on that has `is_repeated`.
    return field.is_repeated if hasattr(field, 'is_repeated') else (
        field.label == field.LABEL_REPEATED)


def assign_proto(proto, name, value):
    """Assigns a Python value to a field: a dict to a message, a sequence to a repeated field."""
    field = proto.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise AttributeError('%s has no field %s' % (proto.DESCRIPTOR.name, name))
    if _is_repeated(field):
        if isinstance(value, (str, bytes, dict, Message)) or not hasattr(value, '__iter__'):
            value = [value]
        repeated = getattr(proto, name)
        for item in value:
            if field.message_type is None:
                repeated.append(_plain(item))
            else:
                _assign_message(repeated.add(), item)
    elif field.message_type is not None:
        _assign_message(getattr(proto, name), value)
    else:
        setattr(proto, name, _plain(value))


def _assign_message(message, value):
    if isinstance(value, Message):
        message.CopyFrom(value)
    elif isinstance(value, dict):
        message.SetInParent()
        for name, item in value.items():
            assign_proto(message, name, item)
    else:
        raise TypeError('%s takes a dict or a message, not %r' % (message.DESCRIPTOR.name, value))


class Top:
    """One output of a layer. `name`, if set, is used where a NetSpec gives none."""

    def __init__(self, fn, n):
        self.fn = fn
        self.n = n
        self.name = None

    def to_proto(self):
        """The NetParameter with every layer that is needed for this top."""
        return to_proto(self)


def _is_bundle(value):
    return (isinstance(value, (list, tuple)) and len(value) > 0
            and all(isinstance(top, Top) for top in value))


class Function:
    """A layer: its type, its bottoms, and its parameters, not yet named."""

    def __init__(self, type_name, inputs, params):
        self.type_name = type_name
        for index, bottom in enumerate(inputs):
            if not isinstance(bottom, Top) and not _is_bundle(bottom):
                raise TypeError('%s input %d is not a Top (type is %s)'
                                % (type_name, index, type(bottom)))
        self.inputs = tuple(inputs)
        self.params = dict(params)
        self.ntop = self.params.pop('ntop', 1)
        self.in_place = self.params.pop('in_place', False)
        self.name = self.params.pop('name', None)
        if self.in_place and (not self.inputs or self.ntop != 1):
            raise TypeError('%s works in place: it needs a bottom and has one top' % type_name)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def assign_params(self, layer):
        """Fills a LayerParameter from the keywords."""
        own_name = _param_names.get(self.type_name)
        own_field = own_name and caffe_pb2.LayerParameter.DESCRIPTOR.fields_by_name[
            own_name + '_param']
        for key, value in self.params.items():
            in_own = (own_field is not None and not key.endswith('param')
                      and key in own_field.message_type.fields_by_name)
            if not in_own and key not in layer.DESCRIPTOR.fields_by_name:
                raise AttributeError('%s %s: no parameter %s in LayerParameter%s' % (
                    self.type_name, layer.name, key,
                    ' or ' + own_field.message_type.name if own_field is not None else ''))
            try:
                assign_proto(getattr(layer, own_field.name) if in_own else layer, key, value)
            except (AttributeError, TypeError, ValueError) as error:
                raise type(error)('%s %s, parameter %s: %s'
                                  % (self.type_name, layer.name, key, error)) from error


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
        if top not in self.names:
            self.names[top] = top.name or self.autoname(top.fn)
        return self.names[top]

    def autoname(self, fn):
        self.autonames[fn.type_name] += 1
        return fn.type_name + str(self.autonames[fn.type_name])

    def name_bundle(self, tops):
        """Gives the tops of a bundle one name: that of the first which has one."""
        named = [top for top in tops if top in self.names or top.name]
        shared = self.top_name(named[0] if named else tops[0])
        for top in tops:
            self.names.setdefault(top, shared)

    def bundle_name(self, tops):
        """Emits the layers of a bundle; gives the name that their tops share."""
        self.name_bundle(tops)
        # The OpenCL fork's prototxts have the last of a bundle first.
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
            layer.top.extend(self.top_name(top) for top in fn.tops)
        fn.assign_params(layer)
        return layer


class NetSpec:
    """Tops by name. Names are given by attribute or item assignment and become blob names."""

    def __init__(self):
        super().__setattr__('tops', OrderedDict())

    def __setattr__(self, name, value):
        self[name] = value

    def __getattr__(self, name):
        try:
            return self.tops[name]
        except KeyError:
            raise AttributeError('this net has no top %s' % name) from None

    def __delattr__(self, name):
        del self[name]

    def __setitem__(self, name, value):
        if isinstance(value, (list, tuple)):
            if not _is_bundle(value):
                raise TypeError('%s: a list of tops or one top, not %r' % (name, value))
            if len({top.fn for top in value}) != len(value):
                raise TypeError('%s: two tops of one layer cannot have one name' % name)
        elif not isinstance(value, (Top, Function)):
            raise TypeError('%s: a top, not %r' % (name, value))
        self.tops[name] = value

    def __getitem__(self, name):
        return self.tops[name]

    def __delitem__(self, name):
        del self.tops[name]

    def __contains__(self, name):
        return name in self.tops

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
    """`layers.Type` makes layers of that type: any type at all, also the user's own."""

    def __getattr__(self, type_name):
        if type_name.startswith('__'):
            raise AttributeError(type_name)

        def make_layer(*inputs, **params):
            fn = Function(type_name, inputs, params)
            if fn.ntop == 0:
                return fn
            return fn.tops[0] if fn.ntop == 1 else fn.tops

        make_layer.__name__ = type_name
        return make_layer


class Parameters:
    """`params.Pooling.MAX` is the value MAX of an enum in PoolingParameter."""

    def __getattr__(self, message_name):
        message = getattr(caffe_pb2, message_name + 'Parameter', None)
        if message is None:
            raise AttributeError('there is no message %sParameter' % message_name)
        return message


layers = Layers()
params = Parameters()
