#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "caffe/core/error.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace caffe::cache {

// A failed operation on the file, and how to recover.
class DatabaseError : public Error {
 public:
  enum class Kind {
    kDamaged,   // set the file aside and create a new one
    kMoved,     // another process set it aside: open again
    kReadOnly,  // cannot be written (permissions, full disk); reading may work
    kOther,
  };

  DatabaseError(Kind kind, const std::string& text) : Error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// A prepared statement. Parameters count from 1, columns from 0; text and blob parameters are
// borrowed until the last Step.
class Statement {
 public:
  Statement(sqlite3* connection, const char* text);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Text(int index, std::string_view value);
  Statement& Blob(int index, std::string_view value);
  Statement& Integer(int index, int64_t value);
  Statement& Real(int index, double value);

  // Returns true while there is a row.
  bool Step();

  std::string TextAt(int column) const;
  std::string BlobAt(int column) const;
  int64_t IntegerAt(int column) const;
  double RealAt(int column) const;

 private:
  void Check(int code) const;

  sqlite3* connection_;
  sqlite3_stmt* statement_ = nullptr;
};

// One connection to the cache's file, of the current schema. Everything throws DatabaseError. A
// file that another user may have written, or that lies in a folder that another user may write, is
// not opened.
class Database {
 public:
  // Creates directory and file as needed; sets aside a file that is damaged, foreign or of another
  // schema version. Processes do this one after another, under the lock `<path>.lock`.
  static std::unique_ptr<Database> OpenForWriting(const std::filesystem::path& path, int busy_ms,
                                                  bool shared_memory);
  // Creates and repairs nothing. Returns null if there is no file or if the file is empty.
  static std::unique_ptr<Database> OpenForReading(const std::filesystem::path& path, int busy_ms);

  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Statement Prepare(const char* text) { return Statement(connection_, text); }
  void Execute(const char* text);
  // Describes the damage of the file that OpenForWriting set aside; empty if the file was intact.
  const std::string& damage() const { return damage_; }

  // Renames this connection's file to `<path>.corrupt-<pid>-<n>`, unless another process already
  // did.
  void SetAside();
  // Drops the connection without closing it: after a fork, closing would affect the parent's locks.
  void Abandon() { connection_ = nullptr; }

  // Deletes all but the newest `keep` files that were set aside.
  static void RemoveSetAside(const std::filesystem::path& path, size_t keep);

 private:
  Database(std::filesystem::path path, int busy_ms);
  void Connect(const std::string& name, int flags);
  void CheckSchema();
  void CreateSchema();
  bool IsEmpty();
  int64_t IntegerOf(const char* text);

  std::filesystem::path path_;
  int busy_ms_;
  std::string damage_;
  sqlite3* connection_ = nullptr;
  uint64_t device_ = 0, inode_ = 0;
};

// A transaction that rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void Commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace caffe::cache
