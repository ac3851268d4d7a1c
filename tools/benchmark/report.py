"""The report of nets.py: Markdown from the results of one run, or of several."""
import math
import statistics

# How far the probabilities may be from those of Cortado in float on the CPU, relative to the
# largest.
TOLERANCES = {'float': 1e-3, 'half': 0.02, 'bfloat16': 0.1, 'int16': 0.02, 'int8': 0.5}
# The same for the first loss. Updates enlarge differences of rounding: the losses after them may
# differ by these multiples.
LOSS_TOLERANCES = {'float': 1e-3, 'half': 0.01, 'bfloat16': 0.02}
GROWTH = (1, 2, 5, 20, 40)

WORKS = {'forward': 'Forward passes', 'forward-backward': 'Forward and backward passes',
         'train': 'Training iterations'}


def difference(values, wanted):
    """The largest difference relative to the largest value; infinite for NaN or other shapes."""
    if len(values) != len(wanted) or any(len(a) != len(b) for a, b in zip(values, wanted)):
        return math.inf
    largest = max(abs(b) for row in wanted for b in row)
    worst = 0.0
    for row, other in zip(values, wanted):
        for a, b in zip(row, other):
            if not math.isfinite(a):
                return math.inf
            worst = max(worst, abs(a - b))
    return worst / largest if largest else math.inf


def without_repeats(losses):
    """The losses without those after a skipped update, which repeat the one before."""
    return losses[:1] + [b for a, b in zip(losses, losses[1:]) if abs(b - a) > 1e-3 * abs(a)]


def loss_difference(losses, wanted, half):
    """The largest relative difference, each divided by its GROWTH.

    In half, either side may skip updates until its loss scale fits.
    """
    if not losses or not all(map(math.isfinite, losses)):
        return math.inf
    if half:
        losses, wanted = without_repeats(losses), without_repeats(wanted)
    found = [abs(a - b) / abs(b) / growth for a, b, growth in zip(losses, wanted, GROWTH)]
    return max(found)


def faults(case, reference):
    """Messages about sides whose results are not those of the first side or of the reference.

    Notes the differences in each side's facts.
    """
    found = []
    type_name = case['type']
    sides = [(name, side) for name, side in case['sides'].items() if 'skipped' not in side]
    for name, side in sides:
        side['difference'] = difference(side['output'], reference[:len(side['output'])])
        if side['difference'] > TOLERANCES[type_name]:
            found.append('the output of %s differs by %.2g; %g is allowed' % (
                name, side['difference'], TOLERANCES[type_name]))
        if 'losses' in side:
            wanted = sides[0][1]['losses']
            side['loss_difference'] = loss_difference(side['losses'], wanted, type_name == 'half')
            allowed = LOSS_TOLERANCES[type_name]
            if side['loss_difference'] > allowed:
                lists = [', '.join('%.4g' % loss for loss in losses)
                         for losses in (side['losses'], wanted)]
                found.append('the losses of %s (%s) differ from those of %s (%s) by %.2g; %g is '
                             'allowed' % (name, lists[0], sides[0][0], lists[1],
                                          side['loss_difference'], allowed))
    return found


def ratios(case, first, other):
    """Round by round, the time of one side in that of another; empty if one has not run."""
    times = [case['sides'].get(name, {}).get('milliseconds', []) for name in (first, other)]
    return [a / b for a, b in zip(*times)]


def ratio_text(ratio):
    """Two decimals, or two digits of a small ratio."""
    return '%.2f' % ratio if ratio >= 0.095 else '%.2g' % ratio


def row(case, names, with_targets=False, with_memory=None):
    """One line of a table. with_memory: the sides with a column for memory; None: all."""
    cells = [case['model'], case['type'], '%d' % case['batch']]
    target = case.get('target') or (None, None)
    for name in names:
        side = case['sides'].get(name, {})
        times, mib = side.get('milliseconds'), side.get('mib')
        cells.append('%.3g' % statistics.median(times) if times else '–')
        if with_memory is None or name in with_memory:
            cells.append('%.1f' % mib if mib is not None else '–')
    for other in names[1:]:
        found = ratios(case, names[0], other)
        cells.append('%s (%s to %s)' % tuple(map(ratio_text, (
            statistics.median(found), min(found), max(found)))) if found else '–')
    if with_targets:
        cells += ['%g' % value if value is not None else '–' for value in target]
    return '| ' + ' | '.join(cells) + ' |'


def table(cases, names):
    with_targets = any(case.get('target') for case in cases)
    with_memory = {name for case in cases for name, side in case['sides'].items()
                   if side.get('mib') is not None}
    head = ['net', 'type', 'batch']
    for name in names:
        head += ['%s ms' % name] + (['%s MiB' % name] if name in with_memory else [])
    head += ['%s / %s' % (names[0], other) for other in names[1:]]
    head += ['target ms', 'target MiB'] if with_targets else []
    return ['| ' + ' | '.join(head) + ' |', '|---|---|' + '---:|' * (len(head) - 2),
            *(row(case, names, with_targets, with_memory) for case in cases)]


def means(cases, names):
    """A line for each other side and type, and one for what is largest."""
    lines = []
    for other in names[1:]:
        for type_name in dict.fromkeys(case['type'] for case in cases):
            found = {case['model'] + (', batch %d' % case['batch']): statistics.median(values)
                     for case in cases if case['type'] == type_name
                     for values in [ratios(case, names[0], other)] if values}
            if not found:
                continue
            mean = math.exp(sum(map(math.log, found.values())) / len(found))
            worst = max(found, key=found.get)
            lines.append('* %s / %s, %s: **%s**, at most %s (%s)' % (
                names[0], other, type_name, ratio_text(mean), ratio_text(found[worst]), worst))
    return lines and ['', 'Geometric means:', '', *lines]


def accuracy(cases, names):
    """What was compared, and the largest differences by type and side."""
    lines = []
    for type_name in dict.fromkeys(case['type'] for case in cases):
        cells = []
        for name in names:
            found = [case['sides'][name]['difference'] for case in cases
                     if case['type'] == type_name and 'difference' in case['sides'].get(name, {})]
            if found:
                cells.append('%s %.1g' % (name, max(found)))
        if cells:
            lines.append('* %s: %s' % (type_name, ', '.join(cells)))
    return lines and ['', "Largest difference of the probabilities from Cortado's in float on the "
                      'CPU, relative to the largest:', '', *lines]


def remarks(cases):
    """The sides that were left out, with the reasons, and the nets that were refused."""
    skipped, lines = {}, []
    for case in cases:
        for name, side in case['sides'].items():
            if 'skipped' in side:
                skipped.setdefault((name, side['skipped']), []).append(case)
        for fault in case.get('faults', []):
            lines.append('* Not timed: %s, %s, batch %d: %s' % (
                case['model'], case['type'], case['batch'], fault))
    for (name, reason), found in skipped.items():
        types = ', '.join(dict.fromkeys(case['type'] for case in found))
        lines.append('* %s was left out (%s): %s' % (name, types, reason))
    return lines and ['', *lines]


def notes(runs):
    """What the peers of these runs are."""
    names = {name for run in runs for case in run['cases'] for name in case['sides']}
    lines = []
    if any(name.startswith('torch') for name in names):
        lines.append('* PyTorch: eager unless a name contains graph (a CUDA graph) or compile; NCHW '
                     'unless it contains channels-last (NHWC); TF32 is off unless it contains tf32')
    if 'ort' in names:
        lines.append('* ort: ONNX Runtime, CPU provider')
    if 'openvino' in names:
        lines.append('* openvino: latency hint, inference precision f32, f16 or bf16')
    return lines


def report(runs):
    """The text of one report for several runs, each a dict of main()."""
    works = list(dict.fromkeys(case['work'] for run in runs for case in run['cases']))
    devices = list(dict.fromkeys(run['device_name'] for run in runs))
    title = ' and '.join(WORKS[work].lower() for work in works).capitalize() or 'No measurements'
    lines = ['# %s: %s' % (title, ', '.join(dict.fromkeys(run['device'] for run in runs))), '']
    lines += dict.fromkeys('* Date: %s UTC; commit %s' % (run['date'], run['commit'])
                           for run in runs)
    versions = {}
    for run in runs:
        versions.update(run['versions'])
    lines += ['* Device: %s' % ', '.join(devices),
              '* Host: %s' % '; '.join(dict.fromkeys(run['host'] for run in runs)),
              '* Versions: %s' % ', '.join('%s %s' % item for item in versions.items()),
              '* Medians over %s rounds of about %s s, the sides in turns; the ratio is the median '
              "of the rounds' ratios (smallest to largest), below 1 where the first side is faster; MiB "
              'is the peak of the allocator' % (
                  '/'.join(dict.fromkeys('%d' % run['rounds'] for run in runs)),
                  '/'.join(dict.fromkeys('%g' % run['seconds'] for run in runs)))]
    lines += notes(runs)
    lines += dict.fromkeys('* Command: `%s`' % run['command'] for run in runs)
    for work in works:
        cases = [case for run in runs for case in run['cases'] if case['work'] == work]
        names = list(dict.fromkeys(name for case in cases for name in case['sides']))
        lines += ['', '## %s' % WORKS[work], ''] if len(works) > 1 else ['']
        lines += table(cases, names) + means(cases, names) + accuracy(cases, names)
        lines += remarks(cases)
    return '\n'.join(lines) + '\n'
