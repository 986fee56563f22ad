# Runs a formula as far as it concerns Mailroom: ruby brew.rb FORMULA PREFIX. Homebrew itself installs nothing as root.
require "digest"
require "fileutils"
require "open3"
require "pathname"
require "tmpdir"

PREFIX = Pathname(ARGV[1])

class Pathname
  def install(path)
    mkpath
    FileUtils.cp(path, self)
  end
end

module Utils
  def self.safe_popen_read(*command)
    out, status = Open3.capture2(*command.map(&:to_s))
    status.success? or raise command.join(" ")
    out
  end
end

class Formula
  class << self
    attr_reader :about

    %i[desc url version sha256 license].each do |name|
      define_method(name) { |value| (@about ||= {})[name] = value }
    end
    def depends_on(*) = nil
    def test(&) = nil
  end

  def version = self.class.about[:version]
  def bin = PREFIX/"bin"

  def man1
    (PREFIX/"share/man/man1").tap(&:mkpath)
  end

  def system(*command)
    Kernel.system(*command.map(&:to_s)) or raise command.join(" ")
  end

  def generate_completions_from_executable(*command)
    (PREFIX/"completions").mkpath
    %w[bash zsh fish].each { |shell| (PREFIX/"completions"/shell).write Utils.safe_popen_read(*command, shell) }
  end
end

load ARGV[0]
about = Mailroom.about
archive = about[:url].delete_prefix("file://")
Digest::SHA256.file(archive).hexdigest == about[:sha256] or raise "the archive has another sum"
Dir.mktmpdir do |folder|
  Kernel.system("tar", "-xzf", archive, "-C", folder, "--strip-components", "1") or raise "the archive cannot be unpacked"
  Dir.chdir(folder) { Mailroom.new.install }
end
