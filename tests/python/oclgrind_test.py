"""Small nets under Oclgrind, which checks races, bounds and calls of OpenCL."""
from drivers import SHIM, needs_build, passed_rows, run

pytestmark = needs_build

# It interprets kernels, so that all families would take minutes. These have the kernels with
# groups, local memory and windows.
FAMILIES = ('Convolution;Convolution, strided;InnerProduct;Pooling, MAX;Crop;BatchNorm;Softmax;'
            'Upsample, mask;ROIPooling;Reduction, SUM;Observers')


def test_there_are_no_reports(tmp_path):
    assert passed_rows('oclgrind', tmp_path, 'self_test', DRIVER_TYPES='float quant8',
                       DRIVER_FAMILIES=FAMILIES) > 25


def test_a_read_outside_of_an_array_is_reported(tmp_path):
    fault = 'replace=row < m && col < n>row < m + 999 && col < n'
    result = run('oclgrind', tmp_path, 'self_test', DRIVER_TYPES='quant8',
                 DRIVER_FAMILIES='InnerProduct', LD_PRELOAD=SHIM, CAFFE_SHIM=fault)
    assert result.returncode == 1 and 'reports        FAIL' in result.stdout, result.stdout
