"""The stubs, which editors read, have every public name of their modules, and no other."""
import ast
import inspect
import os
import typing

import pytest

import caffe
from caffe import _caffe, calibration, pycaffe
from google.protobuf import text_format


def stub_of(name):
    with open(os.path.join(os.path.dirname(caffe.__file__), name + '.pyi'),
              encoding='utf-8') as file:
        return ast.parse(file.read())


STUBS = {_caffe: stub_of('_caffe'), pycaffe: stub_of('pycaffe'),
         calibration: stub_of('calibration')}


def names_of(body):
    """Public name -> its nodes, without private helpers and imports."""
    found = {}
    for node in body:
        name = getattr(node, 'name', None) or (
            node.target.id if isinstance(node, ast.AnnAssign) else None)
        if name and (not name.startswith('_') or name in ('__version__', '__len__', '__getitem__',
                                                          '__iter__')):
            found.setdefault(name, []).append(node)
    return found


TOP = {module: names_of(stub.body) for module, stub in STUBS.items()}
CLASSES = {(module, name): nodes[0] for module, names in TOP.items()
           for name, nodes in names.items() if isinstance(nodes[0], ast.ClassDef)}
every_class = pytest.mark.parametrize(
    'module,name', sorted(CLASSES, key=lambda key: (key[0].__name__, key[1])),
    ids=lambda value: getattr(value, '__name__', value))


def public(owner):
    return {name for name in vars(owner)
            if not name.startswith('_') or name in ('__len__', '__getitem__', '__iter__')}


def is_property(node):
    return any(isinstance(decorator, ast.Name) and decorator.id == 'property'
               for decorator in node.decorator_list)


def parameters(node):
    """Names, without that of defaults, and which of them have one."""
    arguments = node.args
    names = [argument.arg for argument in arguments.posonlyargs + arguments.args]
    optional = names[len(names) - len(arguments.defaults):] if arguments.defaults else []
    names += ['*' + arguments.vararg.arg] if arguments.vararg else []
    names += ['**' + arguments.kwarg.arg] if arguments.kwarg else []
    return names, optional


def parameters_at_run_time(function):
    signature = inspect.signature(function).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: '*', inspect.Parameter.VAR_KEYWORD: '**'}
    return ([stars.get(parameter.kind, '') + parameter.name for parameter in signature],
            [parameter.name for parameter in signature
             if parameter.default is not inspect.Parameter.empty])


def compare_functions(where, nodes, function):
    if len(nodes) > 1:  # overloads: one Python function that takes *args
        assert all(parameters(node)[0][1:] for node in nodes), where
        return
    try:
        known = parameters_at_run_time(function)
    except ValueError:  # special methods of the bindings have no signature
        return
    assert parameters(nodes[0]) == known, where


def test_every_public_name_of_the_module_is_in_the_stub():
    known = {name for name in dir(_caffe) if not name.startswith('_')} | {'__version__'}
    assert set(TOP[_caffe]) == known
    assert set(TOP[pycaffe]) == {name for name, value in vars(pycaffe).items()
                                 if inspect.isclass(value) and value.__module__ == 'caffe.pycaffe'}
    assert set(TOP[calibration]) - {'TYPES', 'ROUNDINGS'} == {
        name for name, value in vars(calibration).items()
        if not name.startswith('_') and getattr(value, '__module__', '') == 'caffe.calibration'}
    for module in (_caffe, calibration):
        for name, nodes in TOP[module].items():
            if isinstance(nodes[0], ast.FunctionDef):
                compare_functions(name, nodes, getattr(module, name))


@every_class
def test_every_public_attribute_of_a_class_is_in_the_stub(module, name):
    node = CLASSES[module, name]
    known, stub = getattr(module, name), names_of(node.body)
    # An instance has what its constructor sets.
    assert public(known) <= set(stub) <= public(known) | set(known.__init__.__code__.co_names
                                                             if module is not _caffe else ())
    bases = [base.value if isinstance(base, ast.Subscript) else base
             for base in node.bases]  # dict of dict[str, float]
    assert [getattr(base, 'id', getattr(base, 'attr', '')) for base in bases] == [
        base.__name__ for base in known.__bases__ if base.__name__ not in ('pybind11_object', 'object')]
    for attribute, nodes in stub.items():
        if attribute not in public(known):
            continue
        where = name + '.' + attribute
        value = inspect.getattr_static(known, attribute)
        if isinstance(nodes[0], ast.AnnAssign):  # an attribute that is read and written
            assert not isinstance(value, property) or value.fset, where
        elif is_property(nodes[0]):
            assert isinstance(value, property), where
            assert (len(nodes) == 2) == (value.fset is not None), where
        else:
            assert callable(value) and not isinstance(value, property), where
            compare_functions(where, nodes, value)


@every_class
def test_arguments_of_constructors_are_those_of_the_stub(module, name):
    made = [node for node in CLASSES[module, name].body
            if isinstance(node, ast.FunctionDef) and node.name == '__init__']
    try:
        known = parameters_at_run_time(getattr(module, name).__init__)
    except ValueError:  # enums
        return
    # A class without a constructor takes any arguments and refuses them.
    assert bool(made) == (known[0] not in (['*arguments', '**keywords'], [])) or (
        CLASSES[module, name].bases), name
    if made:
        assert parameters(made[0]) == known, name


def test_values_have_the_types_of_the_stub():
    """What properties of a net, its blobs and its solver return."""
    caffe.set_device('cpu')
    net = text_format.Parse("""
        layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
        layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 2 dim: 4 } } }
        layer { name: "y" type: "InnerProduct" bottom: "x" top: "y"
                inner_product_param { num_output: 4 } }
        layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }""",
                            caffe.proto.caffe_pb2.NetParameter())
    solver = caffe.get_solver(caffe.proto.caffe_pb2.SolverParameter(
        net_param=net, base_lr=0.1, lr_policy='fixed'))
    objects = {'Solver': solver, 'Net': solver.net, 'Blob': solver.net.blobs['y'],
               'Layer': solver.net.layers[2], 'Device': caffe.device(),
               'LayerParameter': solver.net.layers[2].layer_param,
               'SolverParameter': solver.param, 'BlobVec': solver.net.layers[2].blobs,
               'Step': solver.net.plan[0]}
    namespace = dict(vars(typing), **vars(_caffe))
    exec(compile(ast.Module([node for node in STUBS[_caffe].body if isinstance(
        node, (ast.Import, ast.ImportFrom, ast.Assign))], []), '_caffe.pyi', 'exec'), namespace)
    namespace['Quantizer'] = pycaffe.Quantizer
    checked = 0
    for (module, name), node in CLASSES.items():
        value = objects.get(name)
        for attribute, nodes in names_of(node.body).items() if value is not None else ():
            annotation = nodes[0].annotation if isinstance(nodes[0], ast.AnnAssign) else (
                nodes[0].returns if is_property(nodes[0]) else None)
            if annotation is not None:
                wanted = eval(compile(ast.Expression(annotation), name, 'eval'), namespace)
                got = getattr(value, attribute)
                assert fits(got, wanted), '%s.%s is %r, not %s' % (name, attribute, got, wanted)
                checked += 1
    assert checked > 80


def test_no_name_of_the_bound_net_has_a_second_meaning():
    assert not public(_caffe.Net) & public(caffe.Net)
    assert not hasattr(_caffe.Net, '_forward') and '_backward' not in vars(caffe.Net)


def test_the_nets_of_a_solver_are_those_of_the_package():
    solver = caffe.get_solver(text_format.Parse("""
        base_lr: 0.1 lr_policy: "fixed" test_iter: 1 test_interval: 9
        net_param { layer { name: "x" type: "DummyData" top: "x" top: "t"
                            dummy_data_param { shape { dim: 2 dim: 3 } } }
                    layer { name: "l" type: "EuclideanLoss" bottom: "x" bottom: "t" top: "l" } }
        """, caffe.proto.caffe_pb2.SolverParameter()))
    assert type(solver.net) is caffe.Net and type(solver.test_nets[0]) is caffe.Net
    assert solver.net is solver.net and solver.net.blobs is solver.net.blobs
    assert solver.net.forward()['l'] == 0


def fits(value, wanted):
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Union:
        return any(fits(value, one) for one in arguments)
    if wanted is float:
        return isinstance(value, float)
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if origin is not None and issubclass(origin, typing.get_origin(typing.Mapping)):
        return isinstance(value, origin) and all(
            fits(key, arguments[0]) and fits(item, arguments[1]) for key, item in value.items())
    if origin is not None:
        return isinstance(value, origin)
    return isinstance(value, wanted)
