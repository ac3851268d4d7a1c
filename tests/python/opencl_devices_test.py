"""OpenCL devices as they are on other machines: PoCL, which a shim shows as a GPU, with small groups,
without double precision, with little memory, with calls that fail. tests/shim has the shim."""
import json
import os
import re
import subprocess

import pytest

import caffe
from documents import ROOT

TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
SHIM = os.path.join(ROOT, 'build', 'tests', 'libopencl_shim.so')
POCL = [device for device in caffe.devices() if device.name.startswith('opencl:')
        and 'PoCL' in device.driver]
LENET = os.path.join(ROOT, 'models', 'lenet', 'lenet.prototxt')

pytestmark = pytest.mark.skipif(
    not (POCL and os.path.exists(SHIM) and os.path.exists(TOOL)) or
    'ASAN_OPTIONS' in os.environ,
    reason='no PoCL, no build/tests/libopencl_shim.so, or a sanitizer, which is preloaded, too')


@pytest.fixture
def caffe_as(tmp_path):
    """Runs the command with devices that the shim changes; returns status, output, errors."""
    folder = tmp_path / 'cache'
    folder.mkdir(mode=0o700)

    def run(shim, *arguments, **variables):
        environment = dict(os.environ, LD_PRELOAD=SHIM, CAFFE_SHIM=shim,
                           CAFFE_CACHE_DIR=str(folder), **{'CAFFE_LOG': 'warning', **variables})
        result = subprocess.run([TOOL, *arguments], env=environment, capture_output=True, text=True,
                                timeout=900, cwd=tmp_path)
        return result.returncode, result.stdout, result.stderr
    return run


def the_device(text):
    """The lines of the first OpenCL device."""
    found = re.search(r'^Device \d+: opencl:0\n((?:  .*\n)+)', text, re.M)
    return dict(re.findall(r'^  (\S+(?: \S+)*) {2,}(.+)$', found.group(1), re.M)) if found else None


def test_a_gpu_is_the_default_device_and_an_accelerator_is_not(caffe_as):
    for kind, name, default in (('gpu', 'GPU', 'opencl:0'), ('accelerator', 'accelerator', 'cpu'),
                                ('', 'processor', 'cpu')):
        _, printed, _ = caffe_as('type=' + kind, 'device_query')
        assert the_device(printed)['kind'] == name
        assert 'Default device: %s\n' % default in printed
    status, _, error = caffe_as('type=accelerator', 'time', '-model', LENET, '-gpu', 'all')
    assert status == 1 and 'no GPU was found' in error


def test_a_device_that_is_too_old_is_named_and_not_offered(caffe_as):
    status, printed, _ = caffe_as('type=gpu,version=1.1', 'device_query')
    assert status == 0 and the_device(printed) is None
    assert "is not used: it has 'OpenCL 1.1 shim', and version 1.2 is needed" in printed
    assert 'Default device: cpu\n' in printed


def test_a_platform_without_devices_is_named(caffe_as):
    _, printed, _ = caffe_as('type=none', 'device_query')
    assert 'OpenCL platform Portable Computing Language has no devices' in printed


def test_an_option_that_the_device_does_not_allow_is_not_passed(caffe_as):
    shim = 'rounding=0,denormals=0,strict=1'
    _, printed, _ = caffe_as(shim, 'device_query')
    assert the_device(printed)['not promised'] == (
        'correctly rounded division and square roots, floats below 2^-126')
    status, _, error = caffe_as(shim, 'time', '-model', LENET, '-gpu', 'opencl:0', '-iterations', '1',
                                '-phase', 'TEST')
    assert status == 0, error
    # The shim does refuse it where a device says that it does not know it.
    _, printed, _ = caffe_as('', 'device_query', '--json')
    device = json.loads(printed)['devices'][-1]
    assert device['rounds_division'] and device['denormals']


@pytest.mark.parametrize('name', ['pocl', 'POCL', 'pocl:0', 'opencl:pocl', 'opencl:pocl:0',
                                  'opencl:0'])
def test_names_by_platform(name, caffe_as):
    status, printed, error = caffe_as('', 'device_query', '-gpu', name)
    assert status == 0, error
    assert the_device(printed)['also called'] == 'opencl:pocl:0'


def test_a_name_that_is_not_there_lists_those_that_are(caffe_as):
    status, _, error = caffe_as('platform=Intel(R) OpenCL', 'device_query', '-gpu', 'pocl')
    assert status == 1
    assert re.search(r"no device 'pocl'; there are cpu.*opencl:0 \(opencl:intel:0\)", error)


def test_a_type_that_the_device_lacks_is_a_row(caffe_as):
    status, printed, _ = caffe_as('fp64=0', 'device_query', '--self-test', 'double', '-gpu', 'pocl')
    assert re.search(r'opencl:0 +double +all +skip .*has no double precision', printed)
    assert status == 1 and printed.endswith('0 of 0 passed, 1 skipped\n')


def test_a_faulty_driver_is_named_once_for_each_process_and_kept(caffe_as):
    wrong = 'replace=o[0] = wide < 0>o[0] = 0'
    run = ('time', '-model', LENET, '-gpu', 'opencl:0', '-iterations', '1', '-phase', 'TEST')
    # The second process takes the result of the first one, with a driver that is right now.
    for shim in (wrong, ''):
        status, _, error = caffe_as(shim, *run)
        assert status == 0 and error.count('a probe found faults in the sign of an int') == 1
        assert POCL[0].driver.split(',')[0] in error and '--self-test' in error


def test_a_right_driver_is_not_complained_about(caffe_as):
    _, _, error = caffe_as('', 'time', '-model', LENET, '-gpu', 'opencl:0', '-iterations', '1',
                           '-phase', 'TEST')
    assert 'wrong results' not in error and 'probe' not in error


def test_a_driver_that_is_known_to_be_faulty_is_named(caffe_as):
    for version, warned in (('22.3.6', True), ('25.0.7-2', False)):
        _, _, error = caffe_as('platform=rusticl,driver=' + version, 'time', '-model', LENET, '-gpu',
                               'opencl:0', '-iterations', '1', '-phase', 'TEST')
        assert ('seen in Mesa 22.3.6' in error) == warned, error


@pytest.mark.parametrize('shim', ['group=128', 'group=64', 'group=1'])
def test_codes_are_equal_with_small_groups(shim, caffe_as):
    status, printed, error = caffe_as(shim, 'device_query', '--self-test', 'quant8', '-gpu', 'pocl')
    assert status == 0, printed + error
    assert re.search(r'\n(1\d\d) of \1 passed\n', printed)


def test_codes_are_equal_with_small_groups_of_kernels_but_for_grouped_experts(caffe_as):
    """One library computes grouped experts: a net that cannot use it is refused, with the cure."""
    status, printed, error = caffe_as('kernel_group=32', 'device_query', '--self-test', 'quant8',
                                      '-gpu', 'pocl')
    failed = re.findall(r'^opencl:0 +quant8 +(.*?) +FAIL +(.*)$', printed, re.M)
    assert status == 1 and {name.split(',')[0] for name, _ in failed} == {'MOE',
                                                                          'MOE of convolutions'}
    for name, message in failed:
        assert 'groups of 32 items' in message and 'full_forward: true' in message, name
    passed, rows = re.search(r'\n(1\d\d) of (1\d\d) passed\n', printed).groups()
    assert int(passed) + len(failed) == int(rows) and 'MOE, 2 of 4  ' in printed


def test_floats_agree_with_small_groups(caffe_as):
    """Every family, also solvers that clip gradients, reductions and softmax rows."""
    status, printed, error = caffe_as('group=64,rounding=0', 'device_query', '--self-test', 'float',
                                      '-gpu', 'pocl')
    assert status == 0, printed + error
    assert re.search(r'\n(2\d\d) of \1 passed\n', printed)


def test_a_report_has_the_devices_and_the_rows_and_no_paths(caffe_as, tmp_path):
    report = tmp_path / 'report.json'
    status, printed, error = caffe_as('refuse=quantized_gemm', 'device_query', '--self-test',
                                      'quant8', '-gpu', 'pocl', '-report', str(report),
                                      CAFFE_LIBRARY='gemm=generated,conv=generated')
    assert status == 1, printed + error
    text = report.read_text()
    found = json.loads(text)
    (device,) = found['devices']
    assert device['stable_id'] == 'opencl:pocl:0' and 'OpenCL' in device['driver']
    assert found['failed'] == sum(row['result'] == 'FAIL' for row in found['rows']) > 0
    assert any('quantized_gemm' in row['message'] for row in found['rows'])
    assert {'sum_codes_of_two', 'look_up'} < set(found['kernels']['opencl:0'])
    assert not re.search(r'["( ]/\w+/', text), text
    status, _, error = caffe_as('', 'device_query', '--self-test', 'quant8', '-gpu', 'pocl',
                                '-report', '/nowhere/report.json')
    assert status == 1 and '/nowhere/report.json' in error
    status, _, error = caffe_as('', 'device_query', '-report', 'report.json')
    assert status == 1 and '-report and -families need --self-test' in error


@pytest.mark.parametrize('call', ['clCreateContext', 'clCreateCommandQueue', 'clCreateBuffer',
                                  'clBuildProgram', 'clCreateKernel', 'clSetKernelArg',
                                  'clEnqueueNDRangeKernel', 'clFinish'])
def test_a_call_that_fails_is_an_error_that_names_it(call, caffe_as):
    run = ('time', '-model', LENET, '-gpu', 'opencl:0', '-iterations', '2', '-phase', 'TEST')
    status, _, error = caffe_as('', *run)
    assert status == 0, error
    for number in (1, 2, 9):
        status, _, error = caffe_as('fail=%s:%d' % (call, number), *run)
        assert status in (0, 1), error  # neither a signal nor an abort
        # A binary that does not load is compiled again. There is one context.
        if number == 1 and call not in ('clBuildProgram', 'clFinish'):
            assert status == 1
        if status == 1:
            assert 'opencl:0' in error and ('CL_OUT_OF_RESOURCES' in error or 'memory' in error)


def test_little_memory_is_an_error_that_names_the_blob(caffe_as):
    status, _, error = caffe_as('memory=1000000', 'time', '-model', LENET, '-gpu', 'opencl:0',
                                '-phase', 'TEST')
    assert status == 1 and re.search(r'opencl:0.*(memory|bytes)', error), error


def test_a_program_that_does_not_build_without_a_log_says_so(caffe_as):
    status, _, error = caffe_as('log=empty,replace=DEVICE_FN Acctype relu_value>DEVICE_FN no_type f',
                                'time', '-model', LENET, '-gpu', 'opencl:0', '-phase', 'TEST')
    assert status == 1 and 'the driver gave no log' in error and '--self-test' in error
    status, _, error = caffe_as('replace=DEVICE_FN Acctype relu_value>DEVICE_FN no_type f', 'time',
                                '-model', LENET, '-gpu', 'opencl:0', '-phase', 'TEST')
    assert status == 1 and 'error:' in error and 'free space' not in error


def test_a_warm_start_compiles_nothing(caffe_as):
    run = ('time', '-model', LENET, '-gpu', 'opencl:0', '-iterations', '1', '-phase', 'TEST')
    for _ in range(2):
        status, _, error = caffe_as('', *run, CAFFE_LOG='debug')
        assert status == 0
    assert 'loaded from the program cache' in error and 'compiled in' not in error


@pytest.mark.parametrize('shim', ['', 'commands=0'])
def test_graphs_have_the_same_bits_with_and_without_command_buffers(shim):
    test = os.path.join(os.path.dirname(SHIM), 'test_net')
    if not os.path.exists(test):
        pytest.skip('no build/tests/test_net')
    result = subprocess.run([test, '--gtest_filter=All/GraphValuesTest.*/opencl_0_float'],
                            env=dict(os.environ, LD_PRELOAD=SHIM, CAFFE_SHIM=shim,
                                     CAFFE_LOG='error'),
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and '[  PASSED  ] 6 tests.' in result.stdout, result.stdout
