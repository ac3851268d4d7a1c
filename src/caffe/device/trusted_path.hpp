#pragma once

#include <filesystem>
#include <string>

namespace caffe {

// Why code from this folder or file must not run: a user other than the effective one and root can
// have written it. Empty if no other user can, and for a path that does not exist.
//
// The rule is that of ssh's StrictModes. The folder or file, and every folder that leads to it from
// the root or from the user's home folder (HOME), belongs to the effective user or to root, and
// neither group nor others may write it. A user who can write one of these folders can replace what
// lies below it at any time, also between this check and the use; without such a folder the result
// of the check stays true. Folders on the way may be writable if they are sticky, like /tmp: there,
// only the owner of an entry can replace it. Symbolic links belong to the user or to root, and the
// rule holds for the folders on both sides. Folders above HOME are not checked: a user who could
// write them could replace everything that this user runs.
//
// The text names the folder or file, its owner and its mode, and says how to cure that.
std::string WhyUntrusted(const std::filesystem::path& path);

// Makes a folder, and each of its parents that is missing, for this user alone under every
// umask. Returns 0 or a number of errno; 0 also if there is a file with this name.
int MakePrivateFolder(const std::filesystem::path& folder);

// Makes an empty folder for this process alone: `<parent>/<name>-XXXXXX`, in TMPDIR or in one of
// the usual folders for temporary files, the first one that can be written, trusted and run code
// from. Returns an empty path if there is none; then `why` has the reason for each.
std::filesystem::path MakeTemporaryFolder(const std::string& name, std::string* why);

// Why files cannot be written in a folder, or in the nearest of its parents that exists: the
// system's words, after the path. Empty if they can. It writes a file without a name: rights alone
// do not say whether a disk is full, and root has all of them, also where the kernel makes no
// files.
std::string WhyUnwritable(const std::filesystem::path& folder);

}  // namespace caffe
