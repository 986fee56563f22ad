class Mailroom < Formula
  desc "Message router for AI coding agents, built on one SQL table"
  url "<<.URL>>"
  version "<<.Version>>"
  sha256 "<<.Sum>>"
  license "MIT"

  depends_on "go" => :build

  def install
    system "make", "build", "VERSION=v#{version}"
    bin.install "bin/mailroom"
    (man1/"mailroom.1").write Utils.safe_popen_read(bin/"mailroom", "man")
    generate_completions_from_executable(bin/"mailroom", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mailroom --version")
    system bin/"mailroom", "--db", testpath/"mailroom.db", "init"
    assert_path_exists testpath/"mailroom.db"
  end
end
