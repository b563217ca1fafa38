module @jit_block attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x4x8xf32>) -> (tensor<1x4x8xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[0.41097796, -0.384740949, -0.522954226, -0.306356609, 0.0433258787, -0.281459183, -0.172257632, -0.344714612], [-0.219354823, -0.355245918, 0.129918918, 0.281036437, -0.169863284, -0.0732795224, -0.205426037, 0.187825665], [0.0314860642, 0.563619554, -0.387307853, 1.281640e-01, 0.156974658, -0.12743485, 0.206310466, -0.508594573], [7.491100e-01, -0.474484354, 0.325200975, -0.396376729, 0.406898588, -0.136038154, 0.0560109578, 0.0188598651], [0.389168262, -0.113684192, -1.04905784, -0.268721372, 0.0649521127, -0.155729026, 0.272172779, 0.358972311], [-0.0522452258, -0.526669204, 0.489376277, 0.382917225, -0.105780043, 0.745392501, -0.123346105, -0.402032524], [-0.0551095828, 0.381071776, -0.331439853, 0.689862251, -0.316969872, 0.337439239, 0.192496523, -0.0544673949], [0.382026106, -0.530258954, 0.479974121, -0.0225157049, -0.191779822, 0.264873028, 0.374730885, 0.272163779]]> : tensor<8x8xf32>
    %cst_0 = stablehlo.constant dense<[[0.706931353, 0.382094383, 0.453788131, -0.190870732, 0.037661843, 0.199044406, -0.00627282774, 0.106644161], [0.150650784, 0.298485309, -0.0359241664, -0.123672701, -0.292853802, -0.315274984, 0.414524108, -0.0298828594], [0.278226852, -0.458687395, -0.685245931, -0.37090975, 0.405393839, 0.377622396, 0.117393374, -2.836100e-01], [-0.0462457165, -0.10527423, -0.121966496, -0.886029482, -0.303322792, -0.0672136396, 0.536138177, 0.0568312518], [0.495288789, -0.139196411, -0.0893389061, -1.37865376, 0.163812011, 0.193427533, 6.235830e-01, -0.172096074], [0.0332885198, -0.249441803, -0.415869683, -0.252121747, -0.1219754, 0.479219705, 7.81919574E-4, -0.279499799], [0.0501613878, 0.0769230872, -0.239084139, 0.404194117, -0.667632162, -0.0754994303, 0.23513636, -0.473207355], [0.127722487, 0.457106709, 0.160397008, -0.597561777, -0.257455826, 0.435685039, 0.105477437, -0.00348566123]]> : tensor<8x8xf32>
    %c = stablehlo.constant dense<[[true, false, false, false], [true, true, false, false], [true, true, true, false], [true, true, true, true]]> : tensor<4x4xi1>
    %cst_1 = stablehlo.constant dense<[[0.155987963, 0.254929304, -0.250480294, -0.102671936, 0.0505276062, -0.192318097, -0.0471822508, 0.458866954], [-3.421760e-01, 0.681178152, 0.664448559, -0.605792343, -0.0498590432, 0.12115977, -0.269008547, -0.262011528], [-0.0839391276, 0.261338919, -0.180783808, 0.64583379, 0.102521293, -0.0362658389, 0.512390673, 0.221423835], [0.130562589, -0.117075808, 0.641340792, 0.287022263, -0.0719167665, -0.557624102, 0.131858289, -0.404373199], [-0.606678485, -0.0986949577, 0.0995150655, 0.453425586, 9.986180e-02, 0.284970939, -4.334150e-01, -0.00796632748], [0.0439153314, 0.304850072, 0.0410336442, 0.28428483, -0.178261355, 0.126556173, 0.14667742, -0.441862434], [0.0620622784, -0.113265261, -0.673196732, 0.338847935, -0.127936363, -0.301365405, -0.133401617, 0.048861187], [0.533126533, -0.0586662479, 0.167021275, 0.485633641, 0.188638598, 0.377794474, -0.168471679, 0.272607118]]> : tensor<8x8xf32>
    %cst_2 = stablehlo.constant dense<[[-0.0204976108, 0.379861742, -0.354811877, -0.275615275, 0.448564351, -0.0693261549, -0.126911759, 0.0274259914], [-0.243774161, 0.470912397, -0.441645682, -0.0532444343, 0.122666337, -0.0369276144, -0.283651471, -0.307021946], [0.15039964, -0.364329845, 0.228481293, -0.538867831, -0.196216151, 0.0128361173, -0.442702562, 0.230520651], [-6.554460e-03, -0.366307378, -0.537008107, -0.553519428, 0.0180432238, -0.409001201, -0.482557803, -0.0817507132], [0.80521804, 0.0981253385, 0.269732535, 0.075207293, 2.768260e-01, -0.474853545, -0.152208969, 0.0924014747], [-0.00633455114, -0.0678798556, -0.235422745, -0.0913522243, -0.273720264, -0.856247246, -0.422322512, 0.168168709], [0.550510168, 0.641197443, 0.0342069082, 0.315858811, 0.321018666, -0.244750574, -0.600312412, 0.0109203169], [-0.623032152, -0.113112196, 0.215001851, -0.502070367, 0.0114181424, 0.438412607, 0.127813965, 0.184668615]]> : tensor<8x8xf32>
    %cst_3 = stablehlo.constant dense<"0x3623A43E94D91C3FB7485B3D3D90DE3E99DAB9BCF7BB45BE69F4E33DE3535BBEB47E4FBE8E065CBE12C24FBF91C7183D55C7E4BEA0571BBD773C033F4D9F3CBE703A44BEDBE4F63EA8C8453E32C5B03E11A100BEE36A873E696B78BE20BD74BE0DDD573E5DA258BE01DD8A3E7778583FF59C18BFDE2988BEA3C4CA3E7B1852BD022ED23E57D7B6BE37EBEF3D62075ABD4D474B3DECC0EF3D41D8DCBE8D70C2BE4C4AFD3E354FD43D85011A3DDD4E7FBC0915013E353FD1BEE0D7B4BE2724EC3EE6115B3DC0EB993E17465BBEC336F93E1E02FA3DC73A2E3E47A9463E2A4690BEA3DD28BF608FC2BEFD93133FEE72EB3EAA32FBBDDF6FDABD4DA5BB3E30E273BDF030EBBE7816E53ED1C12C3EC9C063BF1CC6E2BD820E503DDF3A2E3EA5565C3DC22966BE13A327BD4F75D53D410EC2BD77A406BEC2A6E23EB35AABBEE109FDBD78D937BF20DA433E90EE953ECD92463ED11DA63E8A8D1F3EF401F83D51962B3E4F8DC1BD3E1CD73EA464FCBD645B04BFC8D3993EAA81273F51CEADBE772D13BD112878BE2EC909BEE07F853C95CAE0BEF10AC9BD29AF04BF6BB84DBE98B3D6BEE1B5BFBE26AB1BBF0DBADC3E904C383E8D8C2DBF1E1358BE86B972BE04267ABEFAF402BFF38E883E68510FBEEE7C293EBAB43E3E71FBF83E744324BF3D5C1D3F1BAEE53ED8784F3EF7BC573F9D6B943D1DB4943ECEAA85BE3357CD3EB809733D"> : tensor<8x16xf32>
    %cst_4 = stablehlo.constant dense<"0xB503E7BDEF7B073FB40E9CBD1A2F113BC2034ABDA67341BE7801083E69083D3E5170B53DB71317BF0C06813E7152B3BD7CB09BBE9F701A3EE616103E708385BE633C1E3F0BD59ABE08D3DDBEE4BB93BEC5DCB53EC91334BD377EBEBD18997EBCB0BB18BE1AB530BEB32624BE933C353E4C9E823E460D87BE2DF8743DF3C7493ED9768ABE34A800BE49DF84BE6C40A5BE7B9DD03C2C733CBEAD91213E3E06F1BBE543D33D1BA695BD308F22BED6B2B9BC94B6A3BAF2B234BEB86ADA3DD7203F3E6FE0213DAB53DB3EF8E021BECF45053EB045D1BDB742703D8F7754BE5DBC8E3ED33E343D789B983E6B0FA2BE07AEFCBD317F64BE582D08BEDE4E31BE2ADEF6BCE2498DBBBFDF27BCD0360EBE63EC3F3D5628603E88FB66BE9DF268397AB297BC2ECCEF3D4AC882BC795380BB74B87DBE40CCB13B9F006CBE3205043E7364D3BC9542233C0D2564BE0FC34D3E7C3B313ED58C5C3E7E8D0E3F901E57BC1B099A3E6F99FDBCCFC5C93D820DBB3D9278873D7A83283E8D9D9BBD9CA8273C0E0A093EADB9DF3EB0A457BE5B2FE7BE0EDAF7BD662CB83C322D333DAEDCBC3CAB65973E66DE793E25CD49BC7B68F0BD1328B1BD7F6DB6BD8C0367BD9D4CC9BE880DECBDE089D9BDDC6941BD9C3382BDA9082C3E712D08BE428DE0BD80BC0A3E60F670BD4FA65D3D96592B3E630CD83D4B15803DFA2749BD9D902E3E5DC3333D083E01BE"> : tensor<16x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<1x4x8xf32>, tensor<f32>) -> tensor<1x4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %cst_6 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x4x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x4x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<1x4x8xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<1x4x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<1x4x8xf32>, tensor<f32>) -> tensor<1x4xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %cst_8 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x4x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<1x4x1xf32>
    %cst_9 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x4x1xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x4x1xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x4x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
    %15 = stablehlo.multiply %5, %14 : tensor<1x4x8xf32>
    %16 = stablehlo.dot_general %15, %cst, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    %17 = stablehlo.dot_general %15, %cst_0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    %18 = stablehlo.transpose %17, dims = [0, 2, 1] : (tensor<1x4x8xf32>) -> tensor<1x8x4xf32>
    %19 = stablehlo.reshape %16 : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    %20 = stablehlo.reshape %18 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
    %21 = stablehlo.dot_general %19, %20, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [1, 2] : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %cst_10 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x4x4xf32>
    %24 = stablehlo.divide %22, %23 : tensor<1x4x4xf32>
    %cst_11 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %25 = call @_where(%c, %24, %cst_11) : (tensor<4x4xi1>, tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4x4xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_12) applies stablehlo.maximum across dimensions = [2] : (tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %28 = stablehlo.maximum %27, %26 : tensor<1x4xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<1x4x1xf32>) -> tensor<1x4x4xf32>
    %31 = stablehlo.subtract %25, %30 : tensor<1x4x4xf32>
    %32 = stablehlo.exponential %31 : tensor<1x4x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.reduce(%32 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x4x1xf32>) -> tensor<1x4x4xf32>
    %36 = stablehlo.divide %32, %35 : tensor<1x4x4xf32>
    %37 = stablehlo.dot_general %15, %cst_1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    %38 = stablehlo.reshape %36 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %39 = stablehlo.reshape %37 : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    %40 = stablehlo.dot_general %38, %39, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [1, 2] : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
    %42 = stablehlo.dot_general %41, %cst_2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    %43 = stablehlo.add %arg0, %42 : tensor<1x4x8xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<1x4x8xf32>, tensor<f32>) -> tensor<1x4xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %cst_16 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x4x1xf32>
    %47 = stablehlo.divide %45, %46 : tensor<1x4x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
    %49 = stablehlo.subtract %43, %48 : tensor<1x4x8xf32>
    %50 = stablehlo.multiply %49, %49 : tensor<1x4x8xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%50 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<1x4x8xf32>, tensor<f32>) -> tensor<1x4xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %cst_18 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1x4x1xf32>
    %54 = stablehlo.divide %52, %53 : tensor<1x4x1xf32>
    %cst_19 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x4x1xf32>
    %56 = stablehlo.add %54, %55 : tensor<1x4x1xf32>
    %57 = stablehlo.rsqrt %56 : tensor<1x4x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
    %59 = stablehlo.multiply %49, %58 : tensor<1x4x8xf32>
    %60 = stablehlo.dot_general %59, %cst_3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x8xf32>, tensor<8x16xf32>) -> tensor<1x4x16xf32>
    %61 = stablehlo.multiply %60, %60 : tensor<1x4x16xf32>
    %62 = stablehlo.multiply %61, %60 : tensor<1x4x16xf32>
    %cst_20 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<1x4x16xf32>
    %64 = stablehlo.multiply %63, %62 : tensor<1x4x16xf32>
    %65 = stablehlo.add %60, %64 : tensor<1x4x16xf32>
    %cst_21 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<1x4x16xf32>
    %67 = stablehlo.multiply %66, %65 : tensor<1x4x16xf32>
    %68 = stablehlo.tanh %67 : tensor<1x4x16xf32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1x4x16xf32>
    %70 = stablehlo.add %69, %68 : tensor<1x4x16xf32>
    %cst_23 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1x4x16xf32>
    %72 = stablehlo.multiply %71, %70 : tensor<1x4x16xf32>
    %73 = stablehlo.multiply %60, %72 : tensor<1x4x16xf32>
    %74 = stablehlo.dot_general %73, %cst_4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16xf32>, tensor<16x8xf32>) -> tensor<1x4x8xf32>
    %75 = stablehlo.add %43, %74 : tensor<1x4x8xf32>
    return %75 : tensor<1x4x8xf32>
  }
  func.func private @_where(%arg0: tensor<4x4xi1>, %arg1: tensor<1x4x4xf32>, %arg2: tensor<f32>) -> tensor<1x4x4xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<4x4xi1>) -> tensor<1x4x4xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4x4xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4x4xi1>, tensor<1x4x4xf32>
    return %3 : tensor<1x4x4xf32>
  }
}
