# Builds .gem files from the specifications of gems that are installed: `build_gems.rb FOLDER NAME..` takes those
# named and all that they need. Each has its real metadata and a file that says who it is; prints the files' names.
require "fileutils"
require "rubygems/package"
require "rubygems/user_interaction"

# What fits Ruby of itself comes with it, and Bundler has it without an index.
WITHOUT_AN_INDEX = %w[bundler]

def closure(names)
  found = {}
  until names.empty?
    name = names.shift
    next if found[name] || WITHOUT_AN_INDEX.include?(name)
    found[name] = Gem::Specification.find_by_name(name)
    names += found[name].runtime_dependencies.map(&:name)
  end
  found.values
end

def build(installed)
  spec = installed.dup
  library = "lib/#{spec.name}/who.rb"
  FileUtils.mkdir_p(File.dirname(library))
  File.write(library, "puts #{spec.full_name.inspect}\n")
  spec.files, spec.test_files, spec.extra_rdoc_files = [library], [], []
  spec.executables, spec.extensions, spec.require_paths = [], [], ["lib"]
  spec.cert_chain, spec.signing_key = [], nil
  # Debian's have been through a package already; what validation warns about is known.
  Gem::Package.build(spec, true)
end

folder, *names = ARGV
FileUtils.mkdir_p(folder)
Dir.chdir(folder) do
  Gem::DefaultUserInteraction.use_ui(Gem::SilentUI.new) do
    closure(names).each { |spec| puts build(spec) }
  end
end
