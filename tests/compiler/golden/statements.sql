-- iris_dnn
SELECT * FROM iris.train
TO TRAIN DNNClassifier
WITH model.n_classes = 3, model.hidden_units = [10, 20], train.epoch = 10
LABEL class
INTO iris.my_dnn;

-- derived_regressor
SELECT age, pclass, sex, ticket, boarded, alone, fare FROM passengers
TO TRAIN sqlflow_models.DNNRegressor
WITH model.hidden_units = [64, 32], model.dropout = 0.1, model.batch_norm = True, model.activation_fn = tanh,
    model.optimizer = RMSprop, optimizer.learning_rate = 1e-3, optimizer.momentum = 0.9, model.loss = Huber,
    validation.fraction = 0.2, validation.metrics = "RMSE,MAPE", train.patience = 5, train.max_steps = 5000
LABEL fare
INTO fares;

-- lists
SELECT * FROM lists TO TRAIN LinearRegressor LABEL price INTO prices;

-- columns
SELECT * FROM passengers
TO TRAIN LinearClassifier
WITH model.label_vocabulary = ["male", "female"], train.class_weight = [1, 2.5],
    train.batch_size = 64, train.seed = 7
COLUMN DENSE(age, 1), BUCKET(DENSE(fare, 1), [0, 10, 20, 30]), CROSS([BUCKET(age, [25, 50]), pclass], 100),
    INDICATOR(CATEGORY_ID(pclass, 4)), EMBEDDING(CATEGORY_HASH(ticket, 500), 8, mean), alone
LABEL sex
INTO sexes_by_columns;

-- wide_deep
SELECT * FROM passengers
TO TRAIN DNNLinearCombinedClassifier
WITH model.dnn_hidden_units = [16, 8], model.dnn_optimizer = Adagrad, dnn_optimizer.learning_rate = 0.1,
    linear_optimizer.l1_regularization_strength = 0.01,
    validation.select = "SELECT * FROM passengers WHERE age < 30"
COLUMN INDICATOR(sex), CROSS([sex, pclass], 50) FOR linear_feature_columns
COLUMN age, fare, EMBEDDING(ticket, 8) FOR dnn_feature_columns
LABEL survived
INTO combined;

-- deepfm
SELECT * FROM passengers
TO TRAIN DeepFM
WITH model.hidden_units = [32, 16], model.optimizer = Adagrad, optimizer.learning_rate = 0.05,
    train.num_workers = 2, train.strategy = "hybrid", train.num_ps = 1
COLUMN age, fare, CATEGORY_ID(pclass, 4), EMBEDDING(CATEGORY_HASH(ticket, 1000000), 16)
LABEL survived
INTO clicks;

-- dcn
SELECT * FROM passengers
TO TRAIN DCN
WITH model.cross_layers = 3, model.projection = 4, model.structure = stacked, model.dropout = 0.1
COLUMN age, sex, EMBEDDING(ticket, 8)
LABEL pclass
INTO crossed;

-- user_function
SELECT age, fare, sex FROM passengers
TO TRAIN tests.compiler.user_nets.residual WITH model.units = 8 LABEL sex INTO own;

-- user_class
SELECT age, fare, survived FROM passengers
TO TRAIN tests.compiler.user_nets.Net
WITH model.layers = [8, 4], model.loss = BinaryFocalCrossentropy
LABEL survived INTO own;

-- going_on
SELECT * FROM iris.train
TO TRAIN DNNClassifier WITH train.epoch = 3, train.class_weight = "balanced"
LABEL class USING iris.my_model INTO iris.my_model;

-- predict
SELECT * FROM iris.train WHERE sepal_length > 1.2 TO PREDICT iris.predicted.class USING iris.my_model;

-- evaluate
SELECT * FROM passengers TO EVALUATE my_regressor WITH validation.metrics = "MSE,MAE" LABEL fare INTO scores;

-- predict_user_class
SELECT * FROM passengers TO PREDICT guesses.sex USING net_of_mine;

-- evaluate_user_function
SELECT * FROM passengers TO EVALUATE residuals LABEL sex INTO scores;
