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

std::vector<Action> TakeTurns(std::span<const Schedule* const> replicas) {
  std::vector<Action> actions;
  std::vector<size_t> next(replicas.size(), 0);
  const auto has = [&](size_t replica) {
    return next[replica] < replicas[replica]->actions.size();
  };
  const auto take = [&](size_t replica) {
    actions.push_back(replicas[replica]->actions[next[replica]++]);
    actions.back().replica = static_cast<int>(replica);
  };
  bool any = true;
  while (any) {
    for (bool more = true; more;) {
      more = false;
      for (size_t r = 0; r < replicas.size(); ++r) {
        if (!has(r) || replicas[r]->actions[next[r]].kind == Action::Kind::kReduce) continue;
        take(r);
        more = true;
      }
    }
    any = false;
    for (size_t r = 0; r < replicas.size(); ++r) {
      if (!has(r)) continue;
      take(r);
      any = true;
    }
  }
  return actions;
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
    case Action::Kind::kReduce: return "reduce";
    case Action::Kind::kJoin: return "join";
    case Action::Kind::kEndBackward: return "end of backward";
    default: return "tail";
  }
}

}  // namespace

std::string ToText(std::span<const Action> actions, const std::vector<std::string>& names) {
  std::string text;
  for (const Action& action : actions) {
    text += NameOf(action.kind);
    if (action.of_step()) {
      text += Concat(" ", action.index, " ", names[action.node]);
    } else if (action.kind == Action::Kind::kAgain || action.kind == Action::Kind::kBackward) {
      text += Concat(" ", names[action.index]);
    } else if (action.index >= 0) {
      text += Concat(" ", action.index);
    }
    if (action.replica > 0) text += Concat(", replica ", action.replica);
    if (!action.replays && !action.on_host()) text += ", not replayed";
    text += "\n";
  }
  return text;
}

}  // namespace caffe
