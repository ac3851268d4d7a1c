#include "action.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

std::vector<ActionRange> RecordableRanges(std::span<const Action> actions) {
  std::vector<ActionRange> ranges;
  ActionRange range;
  int work = 0;
  const auto close = [&] {
    if (work >= 2) ranges.push_back(range);
    work = 0;
  };
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].on_host()) continue;
    if (!actions[i].replays) {
      close();
      continue;
    }
    if (work++ == 0) range.begin = i;
    range.end = i + 1;
  }
  close();
  return ranges;
}

namespace {

const char* NameOf(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::kStep: return "step";
    case Action::Kind::kConvert: return "convert";
    case Action::Kind::kEndForward: return "end of forward";
    case Action::Kind::kSeed: return "seed";
    case Action::Kind::kBeginBackward: return "begin of backward";
    case Action::Kind::kPlaceAgain: return "place again";
    case Action::Kind::kAgain: return "again";
    case Action::Kind::kBackward: return "backward";
    case Action::Kind::kEndBackward: return "end of backward";
    default: return "tail";
  }
}

}  // namespace

std::string ToText(const Schedule& schedule, const std::vector<std::string>& names) {
  std::string text;
  for (const Action& action : schedule.actions) {
    text += NameOf(action.kind);
    if (action.of_step()) {
      text += Concat(" ", action.index, " ", names[action.node]);
    } else if (action.kind == Action::Kind::kAgain || action.kind == Action::Kind::kBackward) {
      text += Concat(" ", names[action.index]);
    } else if (action.index >= 0) {
      text += Concat(" ", action.index);
    }
    if (!action.replays && !action.on_host()) text += ", not replayed";
    text += "\n";
  }
  return text;
}

}  // namespace caffe
